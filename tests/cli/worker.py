# SPDX-License-Identifier: BSD-2-Clause
"""A command that shows when it has worked last."""
import mmap
import struct

# Works until it is killed, or for five minutes, so that a test that fails leaves none behind. It notes the time of its last
# work in a mapped file: no limit of size and no full disk stops it.
COMMAND = """
import mmap, signal, struct, sys, time
if sys.argv[2] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(sys.argv[1], "r+b") as file:
    place = mmap.mmap(file.fileno(), 8)
end = time.monotonic() + 300
while time.monotonic() < end:
    place[:8] = struct.pack("q", time.monotonic_ns())
    time.sleep(0.001)
"""


class Worked:
    """When the command of one `redlock run` last did something."""

    def __init__(self, path):
        path.write_bytes(bytes(8))
        self.path = path
        with open(path, "r+b") as file:
            self.place = mmap.mmap(file.fileno(), 8)

    def last(self):
        return struct.unpack("q", self.place[:8])[0] / 1e9
