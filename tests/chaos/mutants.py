# SPDX-License-Identifier: BSD-2-Clause
"""Builds a worker with one rule of the library dropped (sim/mutants): mutants.py BUILD NAME OUT [PROGRAM].

PROGRAM: chaos_worker or proof_worker (tests/proof/real). Prints the program. The other workers, the servers and the links are the true ones. CMake says how files are compiled
(compile_commands.json); the mutated file is linked before the library, of which only what is missing is taken then.
"""
import json
import pathlib
import shlex
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(SOURCE / "sim/mutants"))
sys.dont_write_bytecode = True
from mutant import Mutant  # noqa: E402

OBJECTS = {
    "chaos_worker": ("tests/chaos/CMakeFiles", "chaos_worker.dir/worker.c.o", "chaos_worker.dir/turn.c.o", "chaos_worker.dir/watch.c.o",
                     "chaos_worker.dir/loop.c.o", "chaos_record.dir/record.c.o"),
    "proof_worker": ("tests/proof/CMakeFiles", "proof_worker.dir/real/worker.c.o"),
}
LIBRARIES = ("hiredis", "openssl", "liburiparser")


def compile_command(build, file, source, out):
    """How CMake compiles `file`, of the library; with another source and output."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        if pathlib.Path(entry["file"]) != SOURCE / file or not any("chaos_unasserted.dir" in word for word in words):
            continue
        words = [word for word in words if word not in ("ccache", "-Werror")]
        words[words.index("-o") + 1] = str(out)
        words[words.index("-c") + 1] = str(source)
        return [*words, f"-I{(SOURCE / file).parent}"], entry["directory"]
    raise SystemExit(f"mutants.py: {file} is not compiled in {build}")


def make(build, name, out, worker="chaos_worker"):
    """The program's path."""
    build, out = pathlib.Path(build).resolve(), pathlib.Path(out)
    mutant = Mutant(SOURCE / f"sim/mutants/{name}.mutant")
    objects = []
    if not all(file.startswith(("src/core/", "src/client/", "src/policy/", "src/net/")) for file, _, _ in mutant.edits):
        raise SystemExit(f"{name} is a rule of the servers, and these are true ones")
    for file, text in mutant.apply(SOURCE).items():
        source = out / pathlib.Path(file).name
        source.write_text(f'#line 1 "{SOURCE / file}"\n{text}')
        objects.append(str(source.with_suffix(".o")))
        command, directory = compile_command(build, file, source, objects[-1])
        subprocess.run(command, cwd=directory, check=True)
    subprocess.run(["cmake", "--build", str(build), "--target", "chaos_unasserted", worker], check=True, stdout=subprocess.DEVNULL)
    directory, *ours = OBJECTS[worker]
    ours = [build / directory / object for object in ours]
    flags = shlex.split(subprocess.run(["pkg-config", "--libs", *LIBRARIES], check=True, capture_output=True, text=True).stdout)
    program = out / f"{worker}_{name}"
    subprocess.run(["cc", "-o", str(program), *map(str, ours), *objects, str(build / "tests/chaos/libchaos_unasserted.a"), *flags, "-lpthread"],
                   check=True)
    return program, mutant


if __name__ == "__main__":
    print(make(*sys.argv[1:])[0])
