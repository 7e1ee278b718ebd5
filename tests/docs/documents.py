# SPDX-License-Identifier: BSD-2-Clause
"""The documents as tests read them: code blocks with their language and label, and the sections they are in.

A block is labelled by a comment on the line before it: <!-- NAME -->. A ```sh block is always run by a test;
what a test cannot run (sudo, other machines) is a ```console block.
"""
import os
import pathlib
import re

SOURCE = pathlib.Path(os.environ["REDLOCK_SOURCE"])
BINARY = pathlib.Path(os.environ["REDLOCK_BIN"])
BLOCK = re.compile(r"^(?:<!-- (?P<label>[^\n]+) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


class Block:
    def __init__(self, match, headings):
        self.label, self.language, self.text = match["label"], match["language"], match["text"]
        self.section = next((text for at, text in reversed(headings) if at < match.start()), "")

    def __repr__(self):
        return f"{self.language} block {self.label or ''} under '{self.section}'"


class Document:
    def __init__(self, name):
        self.name = name
        self.text = (SOURCE / name).read_text(encoding="utf-8")
        code = [match.span() for match in BLOCK.finditer(self.text)]
        self.headings = [(match.start(), match[1]) for match in re.finditer(r"^#+ (.+)$", self.text, re.MULTILINE)
                         if not any(begin <= match.start() < end for begin, end in code)]
        self.blocks = [Block(match, self.headings) for match in BLOCK.finditer(self.text)]

    def of(self, language, label=None):
        """All blocks of a language, or those with a label."""
        return [block for block in self.blocks if block.language == language and label in (None, block.label)]

    def one(self, language, label=None):
        found = self.of(language, label)
        assert len(found) == 1, f"{self.name}: {len(found)} {language} blocks labelled {label}"
        return found[0].text

    def section(self, title):
        """The text from a heading to the next one of any level."""
        at = [index for index, (_, text) in enumerate(self.headings) if text == title]
        assert len(at) == 1, f"{self.name}: {len(at)} sections '{title}'"
        end = self.headings[at[0] + 1][0] if at[0] + 1 < len(self.headings) else len(self.text)
        return self.text[self.headings[at[0]][0]:end]
