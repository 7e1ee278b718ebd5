#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The built programs and the library have what makes a memory error harder to use (cmake/Hardening.cmake), as read from
the files themselves.

usage: hardening.py [--optimised] FILE...      prints what is missing, and exits 1
       hardening.py --selftest CC              each protection is left out once, and is missed
"""
import os
import platform
import re
import subprocess
import sys
import tempfile


def readelf(*args):
    return subprocess.run(["readelf", "-W", *args], check=True, capture_output=True, text=True).stdout


def first_instruction(path, function):
    code = subprocess.run(["objdump", f"--disassemble={function}", "--no-show-raw-insn", path],
                          check=True, capture_output=True, text=True).stdout
    found = re.search(rf"<{function}(?:@@\w+)?>:\n\s*[0-9a-f]+:\s+(\S+)", code)
    if not found:
        sys.exit(f"{path}: function {function} not found")
    return found[1]


def missing(path, optimised):
    """What the file lacks, in words."""
    segments, dynamic, symbols = readelf("-l", path), readelf("-d", path), readelf("--dyn-syms", path)
    flags = " ".join(line for line in dynamic.splitlines() if "(FLAGS" in line)
    stack = next((line for line in segments.splitlines() if "GNU_STACK" in line), "")
    loads = [line for line in segments.splitlines() if re.match(r"\s*LOAD\s", line)]
    is_library = ".so" in os.path.basename(path)
    entry = "RedisModule_OnLoad" if "RedisModule_OnLoad" in symbols else "redlock_version" if is_library else "main"
    first = first_instruction(path, entry)
    wrong = []
    if not is_library and " PIE" not in flags:
        wrong.append("it is not position independent (PIE)")
    if "GNU_RELRO" not in segments:
        wrong.append("its tables of addresses stay writable (RELRO)")
    if "NOW" not in flags:
        wrong.append("functions are bound when they are called first (BIND_NOW)")
    if not stack or re.search(r"\bRWE\b", stack):
        wrong.append("its stack can be executed")
    if any(re.search(r"\bRWE\b|\bW\s*E\b", line) for line in loads):
        wrong.append("memory is writable and executable")
    if "TEXTREL" in dynamic:
        wrong.append("code is changed when it is loaded (TEXTREL)")
    if "__stack_chk_fail" not in symbols:
        wrong.append("no function checks its stack (stack protector)")
    if optimised and not re.search(r"__\w+_chk@", symbols.replace("__stack_chk_fail", "")):
        wrong.append("no memory function checks its length (FORTIFY)")
    # The file as a whole is marked only where the C library's start files are, which not every distribution builds so.
    if platform.machine() == "x86_64" and first != "endbr64":
        wrong.append("functions do not say that they may be jumped to (CET)")
    return wrong


SOURCE = """
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) {
    char text[64];
    strcpy(text, argv[argc - 1]);
    puts(text);
    return 0;
}
"""
GOOD = ["-O2", "-fPIE", "-pie", "-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-Wl,-z,relro",
        "-Wl,-z,now", "-Wl,-z,noexecstack"] + (["-fcf-protection=full"] if platform.machine() == "x86_64" else [])
BAD = {"-no-pie": "PIE", "-Wl,-z,norelro": "RELRO", "-Wl,-z,lazy": "BIND_NOW", "-Wl,-z,execstack": "stack can",
       "-fno-stack-protector": "stack protector", "-U_FORTIFY_SOURCE": "FORTIFY"}
if platform.machine() == "x86_64":
    BAD["-fcf-protection=none"] = "CET"


def selftest(compiler):
    with tempfile.TemporaryDirectory() as scratch:
        source, program = os.path.join(scratch, "program.c"), os.path.join(scratch, "program")
        with open(source, "w", encoding="ascii") as out:
            out.write(SOURCE)

        def build(*more):
            subprocess.run([compiler, *GOOD, *more, "-o", program, source], check=True)
            return missing(program, True)

        assert build() == [], build()
        for flag, word in BAD.items():
            found = build(flag)
            assert any(word in text for text in found), f"{flag}: {found}"
    print(f"{len(BAD)} protections left out, {len(BAD)} missed")


def main(args):
    if args[:1] == ["--selftest"]:
        selftest(args[1])
        return 0
    optimised = args[:1] == ["--optimised"]
    files = args[optimised:]
    if not files:
        sys.exit("no file given")
    wrong = [f"{path}: {text}" for path in files for text in missing(path, optimised)]
    print("\n".join(wrong) if wrong else f"{len(files)} files are hardened")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
