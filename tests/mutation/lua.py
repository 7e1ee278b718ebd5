# SPDX-License-Identifier: BSD-2-Clause
"""The small changes of a Lua script: a list of (line, change, text of the changed script)."""
import re

TOKEN = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[A-Za-z_]\w*|\d+(?:\.\d+)?|\.\.\.|\.\.|[=~<>]=|\S""")
COMPARED = {"==": ["~="], "~=": ["=="], "<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"]}
SWAPPED = {"and": "or", "or": "and", "true": "false", "false": "true", "+": "-", "*": "/", "/": "*"}
OPENS = {"if", "function", "do"}  # for and while open with their do
KEYWORDS = {"if", "elseif", "else", "end", "for", "while", "function", "return", "repeat", "until", "do"}


def stripped(text):
    """Without comments, as src/node/CMakeLists.txt embeds it."""
    return re.sub(r"--[^\n]*\n", "", text)


def matching_end(tokens, i):
    """The end of the block that tokens[i] opens."""
    depth = 0
    for j in range(i, len(tokens)):
        if tokens[j].group() in OPENS:
            depth += 1
        elif tokens[j].group() == "end":
            depth -= 1
            if depth == 0:
                return j
    raise ValueError("a block without an end")


def of_tokens(tokens):
    for i, token in enumerate(tokens):
        word = token.group()
        before = tokens[i - 1].group() if i else ""
        for other in COMPARED.get(word, []):
            yield token.span(), other
        if word in SWAPPED:
            yield token.span(), SWAPPED[word]
        elif word == "-" and re.match(r"[\w)\]]", before) and before not in KEYWORDS | {"and", "or"}:
            yield token.span(), "+"
        elif word == "not":
            yield (token.start(), tokens[i + 1].start()), ""
        elif re.fullmatch(r"\d+", word):
            yield token.span(), str(int(word) + 1)
            yield token.span(), str(int(word) - 1) if word != "0" else "(-1)"


def of_conditions(tokens):
    for i, token in enumerate(tokens):
        if token.group() not in ("if", "elseif", "while"):
            continue
        close = "do" if token.group() == "while" else "then"
        last = next(j for j in range(i, len(tokens)) if tokens[j].group() == close)
        span = tokens[i + 1].start(), tokens[last - 1].end()
        condition = token.string[span[0]:span[1]]
        for other in (f"not ({condition})", "true", "false"):
            yield span, other


def of_statements(text, tokens):
    """Statements begin a line here, and end one."""
    for i, token in enumerate(tokens):
        if text[text.rfind("\n", 0, token.start()) + 1:token.start()].strip():
            continue
        word = token.group()
        if word in ("if", "for", "while"):
            opening = i if word == "if" else next(j for j in range(i, len(tokens)) if tokens[j].group() == "do")
            yield (token.start(), tokens[matching_end(tokens, opening)].end()), ""
        elif (word not in KEYWORDS and re.match(r"[a-z_]", word)) or word == "return":
            if word == "local" and tokens[i + 1].group() == "function":
                continue
            end, depth = i, 0
            while end < len(tokens):
                depth += (tokens[end].group() in "([{") - (tokens[end].group() in ")]}")
                if depth == 0 and "\n" in text[tokens[end].end():][:1]:
                    break
                end += 1
            span = token.start(), tokens[min(end, len(tokens) - 1)].end()
            yield span, ""
            if word == "return":
                yield span, "return nil"


def changes(text):
    tokens = list(TOKEN.finditer(text))
    found, seen = [], {text}
    for (begin, end), other in [*of_tokens(tokens), *of_conditions(tokens), *of_statements(text, tokens)]:
        changed = text[:begin] + other + text[end:]
        if changed in seen:
            continue
        seen.add(changed)
        first = text.rfind("\n", 0, begin) + 1
        line = text[first:].split("\n", 1)[0].strip()
        old = text[begin:end]
        if "\n" in old:
            old = old.split("\n", 1)[0] + " ..."
        found.append((begin, f"{line}: {old} => {other or ';'}", changed))
    found.sort(key=lambda change: change[0])
    names, numbered = {}, []
    for begin, name, changed in found:
        names[name] = names.get(name, 0) + 1
        name += f" (#{names[name]})" if names[name] > 1 else ""
        numbered.append((text.count("\n", 0, begin) + 1, name, changed))
    return numbered
