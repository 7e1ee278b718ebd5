# SPDX-License-Identifier: BSD-2-Clause
"""The layouts in the hands of another project: crane pushes each to a registry, and checks what a cluster would pull."""
import socket
import subprocess

from layout import Image, build
from servers import die_with_us, until
import tools

IMAGES = ("redlock", "redlock-serve", "redlock-node")


def test_pushed_and_checked(static, tmp_path, log):
    crane = tools.program("crane", "github.com/google/go-containerregistry/cmd/crane@v0.20.3")
    log("\n" + build(tmp_path / "layouts", static=static))
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    registry = subprocess.Popen([crane, "registry", "serve", "--address", address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                preexec_fn=die_with_us)

    def answers():
        with socket.socket() as connection:
            return connection.connect_ex(("127.0.0.1", int(address.rsplit(":", 1)[1]))) == 0
    try:
        until(answers, 30, "the registry")
        for name in IMAGES:
            where = f"{address}/{name}:0.1.0"
            pushed = subprocess.run([crane, "push", tmp_path / "layouts" / name, where], capture_output=True, text=True, check=False)
            assert pushed.returncode == 0 and Image(tmp_path / "layouts" / name).digest in pushed.stdout, pushed
            checked = subprocess.run([crane, "validate", "--remote", where], capture_output=True, text=True, check=False)
            assert checked.stdout + checked.stderr == f"PASS: {where}\n" and checked.returncode == 0, checked
    finally:
        registry.kill()
        registry.wait()
