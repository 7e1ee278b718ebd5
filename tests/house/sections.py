#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Do comments name the right files? A section of a header begins with a comment that names a file ("step.c: what ...");
the functions that it declares are defined there. And each file that a comment names exists.

usage: sections.py SOURCE_DIR
       sections.py --selftest
Prints each lie on a line and exits 1 if there is one.
"""
import collections
import pathlib
import re
import sys
import tempfile

ROOMS = ("src", "serve", "sim", "cli", "top", "module", "bench", "models", "tests", "examples", "include")
COMMENT = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
FILE = re.compile(r"(?<![\w./*<-])((?:[\w-]+/)*[\w-]+\.[ch])(?![\w-])")
# "step.c: the requests", "---- step.c ----", "report.c, plot.c": the files at the beginning. A section ends where the next
# begins, at a line of dashes, or at the end of the header.
SECTION = re.compile(r"/\*\s*(-{4} )?(?:for )?((?:[\w-]+\.c(?:, | and )?)+)(?=[:;.]| -{4}|\s*\*/)")
DASHES = re.compile(r"/\*\s*-{4} ")
DEFINED = re.compile(r"^(?!static\b)[A-Za-z_][\w \t*]*?\b(\w+)\((?:[^(){};]|\([^(){};]*\))*\)\s*\{", re.MULTILINE)
DECLARED = re.compile(r"^(?!static\b|typedef\b|extern\b|return\b)[A-Za-z_][\w \t*]*?[ *](\w+)\((?:[^(){};]|\([^(){};]*\))*\)[^;{}=]*;"
                      r"|^\w+_fn ([\w, \n]+);", re.MULTILINE)


def blanked(text):
    """The text without its comments and strings, each byte where it was."""
    return COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def comments(text):
    return [found for found in COMMENT.finditer(text) if found[0].startswith("/*")]


def definitions(root):
    where = collections.defaultdict(set)
    for room in ROOMS:
        for path in (root / room).rglob("*.c"):
            for found in DEFINED.finditer(blanked(path.read_text(encoding="utf-8"))):
                where[found[1]].add(path)
    return where


def sections(text):
    """(the section's files, where it begins, where it ends)"""
    begun, files = 0, ()
    for comment in comments(text):
        found = SECTION.match(comment[0])
        if found or DASHES.match(comment[0]):
            yield files, begun, comment.start()
            begun, files = comment.end(), tuple(re.findall(r"[\w-]+\.c", found[2])) if found else ()
    yield files, begun, len(text)


def check_sections(header, where):
    text = header.read_text(encoding="utf-8")
    code = blanked(text)
    for files, begun, end in sections(text):
        for found in DECLARED.finditer(code, begun, end) if files else ():
            for name in re.findall(r"\w+", found[1] or found[2]):
                # Programs that are linked apart may have functions of one name.
                near = {path.name for path in where[name] if header.parent in path.parents} or {path.name for path in where[name]}
                if near and not near & set(files):
                    yield f"{name}() stands under {', '.join(files)}, and {', '.join(sorted(near))} defines it"


def check_names(path, text, names):
    for comment in comments(text):
        for name in FILE.findall(comment[0]):
            if pathlib.PurePath(name).name not in names:
                yield f"a comment names {name}, which does not exist"


def check(root):
    paths = sorted(path for room in ROOMS for path in (root / room).rglob("*.[ch]"))
    where, names = definitions(root), {path.name for path in paths}
    wrong = []
    for path in paths:
        lies = [*check_names(path, path.read_text(encoding="utf-8"), names)]
        if path.suffix == ".h":
            lies += check_sections(path, where)
        wrong += [f"{path.relative_to(root)}: {lie}" for lie in lies]
    return wrong if paths else [f"{root}: no sources found"]


HEALTHY = """/* The head names step.c. */
int free_of(int n);
/* step.c: what steps */
int step(int n);
walk_fn walk, run;
/* ---- for others ---- */
int other(int n);
"""
# (what is replaced in the header, by what, what the check must say)
PLANTED = [
    (None, None, None),
    ("int step(int n);", "int step(int n);\nint other(int n);", "other() stands under step.c, and other.c defines it"),
    ("walk, run", "walk, other", "other() stands under step.c, and other.c defines it"),
    ("/* ---- for others ---- */", "/* other.c */\nint other(int n);\nvoid run(void);\n", "run() stands under other.c, and step.c defines it"),
    ("head names step.c", "head names stride.c", "a comment names stride.c, which does not exist"),
]


def selftest():
    failed = 0
    for old, new, expected in PLANTED:
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            (root / "src").mkdir()
            (root / "src/step.h").write_text(HEALTHY.replace(old, new) if old else HEALTHY)
            (root / "src/step.c").write_text("int step(int n) {\n}\nint walk(int (*next)(int)) {\n}\nvoid run(void) {\n}\n")
            (root / "src/other.c").write_text("int free_of(int n) {\n}\nint other(int n) {\n}\n")
            wrong = check(root)
        if wrong != ([f"src/step.h: {expected}"] if expected else []):
            failed += 1
            print(f"planted {new}: expected {expected}, got {wrong}")
    return failed


def main():
    if sys.argv[1:] == ["--selftest"]:
        return 1 if selftest() else 0
    wrong = check(pathlib.Path(sys.argv[1]).resolve())
    print("\n".join(wrong) if wrong else "comments name the right files")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
