# SPDX-License-Identifier: BSD-2-Clause
"""Finds in a C file what can be changed, from the syntax tree of clang, and writes the file with all changes in it.

Each change has a number. The file that is written behaves as the original does, unless the environment names one of the
numbers (mutation.h): so one build serves for all. Left out are assertions, what a macro with arguments expands to, what
the compiler needs as a constant, and file-scope data.
"""
import bisect
import json
import re
import subprocess

RELATIONAL = {"<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"], "==": ["!="], "!=": ["=="]}
ARITHMETIC = {"+": ["-"], "-": ["+"], "*": ["+"], "/": ["*"], "&": ["|"], "|": ["&"]}
COMPOUND = {"+=": "-=", "-=": "+="}
LEFT_OUT = {"UnaryExprOrTypeTraitExpr", "EnumDecl", "StaticAssertDecl", "RecordDecl", "ConstantExpr"}


class Site:
    """A piece of the text, and what may stand there instead. `pieces` is text, or a range that is written in turn."""

    def __init__(self, begin, end, depth, pieces):
        self.begin, self.end, self.depth, self.pieces = begin, end, depth, pieces


class Reader:
    def __init__(self, path, name, options, first):
        self.name, self.next = name, first
        with open(path, encoding="utf-8") as file:
            self.text = file.read()
        if not self.text.isascii():
            raise SystemExit(f"mutate: {name}: only ASCII, so that a byte is a character")
        self.lines = [0] + [i + 1 for i, c in enumerate(self.text) if c == "\n"]
        self.sites, self.mutants, self.seen = [], [], {}
        dump = subprocess.run(["clang", *options, "-w", "-x", "c", "-fsyntax-only", "-Xclang", "-ast-dump=json", path],
                              stdout=subprocess.PIPE, check=True).stdout
        tree = json.loads(dump)
        self.file = None
        self.own = path
        self.locate(tree)
        for declaration in tree["inner"]:
            if declaration["kind"] == "FunctionDecl" and declaration.get("_file") == path:
                body = [n for n in declaration.get("inner", []) if n["kind"] == "CompoundStmt"]
                if body:
                    self.function, self.body = declaration["name"], body[0]
                    self.visit(body[0], None, 0)

    # ---- where things are. clang names a file only when it differs from that of the location before.

    def locate(self, node):
        for key in ("loc", "range"):
            if key in node:
                self.location(node[key])
                if key == "loc":
                    node["_file"] = self.file
        for child in node.get("inner", []):
            if child:
                self.locate(child)

    def location(self, place):
        if "file" in place:
            self.file = place["file"]
        for key in ("spellingLoc", "expansionLoc", "begin", "end"):
            if isinstance(place.get(key), dict):
                self.location(place[key])

    def range(self, node):
        """(begin, end), or None where it is not plain text; an object-like macro counts as a word."""
        begin, end = node["range"]["begin"], node["range"]["end"]
        if not begin or not end:
            return None
        if "expansionLoc" in begin or "expansionLoc" in end:
            first, last = begin.get("expansionLoc", begin), end.get("expansionLoc", end)
            if first.get("isMacroArgExpansion") or last.get("isMacroArgExpansion"):
                return None
            if "expansionLoc" in begin and self.is_call(first) or "expansionLoc" in end and self.is_call(last):
                return None
            begin, end = first, last
        if "offset" not in begin or "offset" not in end:
            return None
        return begin["offset"], end["offset"] + end["tokLen"]

    def is_call(self, place):
        return self.text[place["offset"] + place["tokLen"]:].startswith("(")

    def is_word(self, node):
        begin, end = node["range"]["begin"], node["range"]["end"]
        if "expansionLoc" not in begin:
            return False
        return "expansionLoc" in end and begin["expansionLoc"]["offset"] == end["expansionLoc"]["offset"]

    def source(self, span):
        return re.sub(r"\s+", " ", self.text[span[0]:span[1]])

    # ---- the changes

    def mutant(self, span, operator, becomes):
        """The number of a new one. Its key names no line, so it survives lines that move."""
        change = f"{self.source(span)} => {becomes}"
        self.seen[self.function, change] = count = self.seen.get((self.function, change), 0) + 1
        if count > 1:
            change += f" (#{count})"
        number, self.next = self.next, self.next + 1
        self.mutants.append({"id": number, "file": self.name, "function": self.function, "operator": operator,
                             "line": bisect.bisect_right(self.lines, span[0]), "change": change,
                             "begin": span[0], "end": span[1], "plain": becomes})
        return number

    def add(self, span, depth, *pieces):
        self.sites.append(Site(span[0], span[1], depth, pieces))

    def visit(self, node, parent, depth):
        if not node or node["kind"] in LEFT_OUT:
            return
        span = self.range(node) if "range" in node else None
        kind = node["kind"]
        children = [child for child in node.get("inner", [])]
        if kind == "VarDecl" and node.get("storageClass") == "static":
            return
        if span is None and kind not in ("IfStmt", "ForStmt", "WhileStmt", "CompoundStmt", "DeclStmt", "DoStmt",
                                         "SwitchStmt", "CaseStmt", "DefaultStmt"):
            return
        if kind == "InitListExpr" and re.sub(r"\s", "", self.source(span)) == "{0}":
            return
        if self.is_word(node):
            self.constant(node, span, depth)
            return
        if kind == "ImplicitCastExpr" and node.get("castKind") == "NullToPointer":
            return
        method = getattr(self, "on_" + kind, None)
        if method:
            method(node, parent, span, depth, children)
        for child in children:
            self.visit(child, node, depth + 1)

    @staticmethod
    def type_of(node):
        return node.get("type", {}).get("qualType", "")

    def is_number(self, node):
        what = node.get("type", {}).get("desugaredQualType", self.type_of(node))
        return "*" not in what and "[" not in what and not what.startswith(("struct", "void", "union"))

    def strip(self, node):
        while node["kind"] in ("ImplicitCastExpr", "ParenExpr", "ConstantExpr") and node.get("inner"):
            node = node["inner"][0]
        return node

    def constant(self, node, span, depth):
        if not self.is_number(node):
            return
        text = self.source(span)
        if text in ("true", "false"):
            number = self.mutant(span, "constant", "false" if text == "true" else "true")
            self.add(span, depth, f"(rl_mutated({number}) ? !{text} : {text})")
        elif text == "RL_NEVER" or text.startswith("INT") or text.startswith("UINT"):
            number = self.mutant(span, "constant", "0")
            self.add(span, depth, f"(rl_mutated({number}) ? 0 : {text})")
        else:
            self.off_by_one(span, depth, text)

    def off_by_one(self, span, depth, text):
        more = self.mutant(span, "constant", str(int(text) + 1) if text.isdigit() else f"({text} + 1)")
        out = f"rl_mutated({more}) ? ({text}) + 1 : ({text})"
        if text != "0" and not (text == "1"):
            none = self.mutant(span, "constant", "0")
            out = f"rl_mutated({none}) ? 0 : {out}"
        elif text == "1":
            none = self.mutant(span, "constant", "0")
            out = f"rl_mutated({none}) ? 0 : {out}"
        self.add(span, depth, f"({out})")

    def on_IntegerLiteral(self, node, parent, span, depth, children):
        self.off_by_one(span, depth, self.source(span))

    def on_BinaryOperator(self, node, parent, span, depth, children):
        left, right = (self.range(child) for child in children)
        if not left or not right:
            return
        operator = node["opcode"]
        middle = lambda to: f"{self.source(left)} {to} {self.source(right)}"
        if operator in ("&&", "||"):
            first = self.mutant(span, "logical", middle("||" if operator == "&&" else "&&"))
            self.mutant(span, "logical", self.source(left))
            self.mutant(span, "logical", self.source(right))
            helper = "rl_and" if operator == "&&" else "rl_or"
            name = f"m_{first}_"
            self.add(span, depth, f"({{ _Bool {name} = (", left, f"); {helper}({first}, {name}) ? (_Bool)(", right,
                     f") : {name}; }})")
        elif operator in RELATIONAL or (operator in ARITHMETIC and all(map(self.is_number, children))):
            if "void" == self.type_of(children[0]):
                return
            kind = "relational" if operator in RELATIONAL else "arithmetic"
            becomes = RELATIONAL.get(operator) or ARITHMETIC[operator]
            numbers = [self.mutant(span, kind, middle(to)) for to in becomes]
            a, b = f"a_{numbers[0]}_", f"b_{numbers[0]}_"
            choice = "".join(f"rl_mutated({n}) ? {a} {to} {b} : " for n, to in zip(numbers, becomes))
            self.add(span, depth, f"({{ __typeof__({self.type_of(children[0])}) {a} = (", left,
                     f"); __typeof__({self.type_of(children[1])}) {b} = (", right,
                     f"); {choice}{a} {operator} {b}; }})")
        elif operator == "=" and self.type_of(node) in ("bool", "_Bool"):
            self.negate_value(children[1], depth)

    def on_CompoundAssignOperator(self, node, parent, span, depth, children):
        left, right = (self.range(child) for child in children)
        operator = node["opcode"]
        if operator not in COMPOUND or not left or not right or not self.is_number(node):
            return
        number = self.mutant(span, "arithmetic", f"{self.source(left)} {COMPOUND[operator]} {self.source(right)}")
        self.add(span, depth, f"(rl_mutated({number}) ? (", left, f" {COMPOUND[operator]} ", right, ") : (", left,
                 f" {operator} ", right, "))")

    def on_UnaryOperator(self, node, parent, span, depth, children):
        inner = self.range(children[0])
        if not inner:
            return
        if node["opcode"] == "!":
            number = self.mutant(span, "negated", self.source(inner))
            self.add(span, depth, f"(rl_mutated({number}) ^ !(", inner, "))")
        elif node["opcode"] == "~":
            number = self.mutant(span, "arithmetic", self.source(inner))
            self.add(span, depth, f"(rl_mutated({number}) ? (", inner, ") : ~(", inner, "))")

    def negate_value(self, node, depth):
        """A condition or a truth value that is not itself a comparison: those have changes of their own."""
        span, bare = self.range(node), self.strip(node)
        if not span or self.is_word(node) or "expansionLoc" in bare["range"]["begin"]:
            return
        if bare["kind"] == "BinaryOperator" and bare["opcode"] in (*RELATIONAL, "&&", "||", ","):
            return
        if bare["kind"] == "UnaryOperator" and bare["opcode"] == "!" or bare["kind"] == "IntegerLiteral":
            return
        number = self.mutant(span, "negated", f"!({self.source(span)})")
        self.add(span, depth, f"(rl_mutated({number}) ^ !!(", span, "))")

    def is_assertion(self, node):
        """Only an assertion hangs on the condition."""
        place = node["range"]["begin"].get("expansionLoc") if node.get("range") else None
        return bool(place) and self.text[place["offset"]:].startswith("assert")

    def on_IfStmt(self, node, parent, span, depth, children):
        if len(children) > 1 and self.is_assertion(children[1]):
            del children[:]
            return
        self.negate_value(children[0], depth)
        self.statements(children[1:], depth)

    def on_WhileStmt(self, node, parent, span, depth, children):
        self.negate_value(children[0], depth)
        self.statements(children[-1:], depth)

    def on_DoStmt(self, node, parent, span, depth, children):
        self.statements(children[:1], depth)
        self.negate_value(children[1], depth)

    def on_ForStmt(self, node, parent, span, depth, children):
        # init, variable, condition, increment, body
        if children[2]:
            self.negate_value(children[2], depth)
        children[3] = None
        self.statements(children[-1:], depth)

    def on_CompoundStmt(self, node, parent, span, depth, children):
        self.statements(children, depth, last=children[-1] if children and node is self.body else None)

    def on_CaseStmt(self, node, parent, span, depth, children):
        self.statements(children[-1:], depth)

    on_DefaultStmt = on_CaseStmt

    def on_ConditionalOperator(self, node, parent, span, depth, children):
        self.negate_value(children[0], depth)

    def on_ReturnStmt(self, node, parent, span, depth, children):
        if children and self.type_of(children[0]) in ("bool", "_Bool"):
            self.negate_value(children[0], depth)

    def on_VarDecl(self, node, parent, span, depth, children):
        if self.type_of(node) in ("bool", "_Bool", "const bool") and children and "init" in node:
            self.negate_value(children[-1], depth)

    def statements(self, nodes, depth, last=None):
        for node in nodes:
            span = self.range(node) if node and "range" in node else None
            if not span or "expansionLoc" in node["range"]["begin"]:
                continue
            kind = node["kind"]
            if kind in ("CallExpr", "CompoundAssignOperator") or kind == "UnaryOperator" and node["opcode"] in ("++", "--") \
                    or kind == "BinaryOperator" and node["opcode"] == "=":
                number = self.mutant(span, "removed", ";")
                self.add(span, depth + 0.5, f"(rl_mutated({number}) ? (void)0 : (void)(", span, "))")
            elif kind in ("BreakStmt", "ContinueStmt") or kind == "ReturnStmt" and node is not last:
                number = self.mutant(span, "removed", ";")
                self.add(span, depth + 0.5, f"if (rl_mutated({number})) ; else ", span)

    # ---- the file with all of them

    def write(self):
        sites = sorted(self.sites, key=lambda site: (site.begin, -site.end, site.depth))
        return self.render((0, len(self.text)), sites)

    def render(self, span, sites):
        out, at, i = [], span[0], 0
        while i < len(sites):
            site, j = sites[i], i + 1
            while j < len(sites) and sites[j].begin < site.end:
                j += 1
            out.append(self.text[at:site.begin])
            for piece in site.pieces:
                inside = sites[i + 1:j]
                if isinstance(piece, str):
                    out.append(piece)
                else:
                    out.append(self.render(piece, [s for s in inside if piece[0] <= s.begin and s.end <= piece[1]]))
            at, i = site.end, j
        out.append(self.text[at:span[1]])
        return "".join(out)

    def plain(self, mutant):
        """The file with one change, as a person would write it."""
        becomes = mutant["plain"] if mutant["operator"] in ("removed", "constant") else f"({mutant['plain']})"
        if becomes == ";":
            becomes = ""
        return self.text[:mutant["begin"]] + becomes + self.text[mutant["end"]:]
