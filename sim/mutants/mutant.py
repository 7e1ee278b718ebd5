# SPDX-License-Identifier: BSD-2-Clause
"""Reads a .mutant file, and makes the sources it speaks of with the rule dropped.

    rule: what no longer holds, in one sentence
    source: where the rule is from
    equivalent: why nothing can notice (only if so)
    mode: guarded (its seeds are walked in this mode; else classic)
    operators: yes (in each of these worlds operators change the quorum)
    nodes: native (all nodes of these worlds are native, or some: mixed; else none)
    shared: yes (in each of these worlds some locks are shared)
    slots: yes (in each of these worlds the locks have slots)
    broken: vm-stop (these worlds do without an assumption: redlock sim --break)
    test: tests/net/test_timers.c (what the simulator does not have: this program must fail; all its files)
    file: src/core/tally.c
    old:
    lines as they are there, exactly once; where they are broken does not matter
    new:
    lines instead of them

More old/new pairs, and more files, may follow. A sentence goes on in lines that begin with two spaces.

As a program: mutant.py MUTANT SOURCE_DIR OUT_DIR writes OUT_DIR/NAME.c for each file; mutant.py --check SOURCE_DIR looks whether
all that are here can be made.
"""
import pathlib
import re
import sys

WORDS = ("rule", "source", "equivalent", "mode", "operators", "nodes", "shared", "slots", "broken", "test")


class Mistake(Exception):
    pass


def _lines(text):
    """Finds whole lines that say the same, wherever a formatter broke them."""
    words = re.findall(r"\w+|[^\w\s]", text)
    return re.compile(r"^[ \t]*" + r"\s*".join(map(re.escape, words)) + r"[ \t]*\n", re.MULTILINE)


class Mutant:
    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.name = self.path.stem
        for word in WORDS:
            setattr(self, word, "")
        self.edits = []  # (file, old, new)
        self._read()

    def _wrong(self, text):
        return Mistake(f"mutant {self.name}: {text}")

    def _read(self):
        file, part, parts, word = None, None, {}, None
        for line in self.path.read_text().splitlines() + ["file:"]:
            if line.startswith("file:") or line == "old:":
                if "new" in parts:
                    self.edits.append((file, "\n".join(parts["old"]) + "\n", "".join(f"{new}\n" for new in parts["new"])))
                elif parts:
                    raise self._wrong("an old text without a new one")
                part, parts, word = None, {}, None
                if line.startswith("file:"):
                    file = line[len("file:"):].strip()
                    continue
            if line in ("old:", "new:"):
                if file is None or (line == "new:" and "old" not in parts):
                    raise self._wrong(f"'{line}' comes too early")
                part = line[:-1]
                parts[part] = []
            elif part:
                parts[part].append(line)
            elif word and line.startswith("  "):
                setattr(self, word, f"{getattr(self, word)} {line.strip()}")
            else:
                word, _, text = line.partition(": ")
                if word not in WORDS:
                    raise self._wrong(f"cannot read '{line}'")
                setattr(self, word, text.strip())
        if not (self.rule and self.source and self.edits):
            raise self._wrong("needs rule, source, and file with old and new")

    def apply(self, source_dir):
        """{file: its text without the rule}"""
        texts = {}
        for file, old, new in self.edits:
            if file not in texts:
                texts[file] = (pathlib.Path(source_dir) / file).read_text()
            found = list(_lines(old).finditer(texts[file]))
            if len(found) != 1:
                raise self._wrong(f"its old text is in {file} {len(found)} times, not once; the rule is somewhere else now:\n{old}")
            texts[file] = texts[file][:found[0].start()] + new + texts[file][found[0].end():]
        return texts


def check(source_dir):
    mutants = sorted(pathlib.Path(__file__).parent.glob("*.mutant"))
    mistakes = []
    for path in mutants:
        try:
            Mutant(path).apply(source_dir)
        except (Mistake, OSError) as mistake:
            mistakes.append(str(mistake))
    print("\n".join([*mistakes, f"{len(mutants)} mutants, {len(mistakes)} that do not apply"]))
    return 1 if mistakes or not mutants else 0


def main():
    if sys.argv[1] == "--check":
        sys.exit(check(sys.argv[2]))
    mutant_file, source_dir, out_dir = sys.argv[1:]
    try:
        texts = Mutant(mutant_file).apply(source_dir)
    except Mistake as mistake:
        sys.exit(str(mistake))
    for file, text in texts.items():
        out = pathlib.Path(out_dir) / pathlib.Path(file).name
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(f'#line 1 "{pathlib.Path(source_dir) / file}"\n{text}')


if __name__ == "__main__":
    main()
