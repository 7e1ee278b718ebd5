# SPDX-License-Identifier: BSD-2-Clause
"""redlock gate: a file is replaced whole, by whoever has the highest fence, or not at all."""
import errno
import json
import os
import pathlib
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time

import pytest

from conftest import BINARY
from servers import until

LOST, USAGE, SYSTEM = 80, 64, 71


@pytest.fixture
def file(tmp_path):
    return tmp_path / "report"


def gate(redlock, fence, file, *command, **more):
    return redlock("gate", "--fence", str(fence), str(file), "--", *command, **more)


def left(file):
    """The names beside the file."""
    return sorted(entry.name for entry in file.parent.iterdir())


def test_what_comes_late_belongs_to_the_content(redlock, file):
    """As in a pipeline: all of it is there, or nothing, and nobody writes to the file itself."""
    behind = 'echo five; (until [ -e "$1" ]; do sleep 0.05; done; echo late) & exit 0'
    sign = file.parent / "sign"
    process = redlock.start("gate", "--fence", "5", str(file), "--", "sh", "-c", behind, "sh", str(sign))
    time.sleep(0.3)
    assert process.poll() is None and not file.exists()
    sign.touch()
    assert process.wait(10) == 0 and file.read_text() == "five\nlate\n"


def test_a_signal_ends_the_wait_for_what_comes_late(redlock, file):
    gate(redlock, 4, file, "echo", "four")
    process = redlock.start("gate", "--fence", "5", str(file), "--", "sh", "-c", "echo five; sleep 5 & exit 0")
    time.sleep(0.3)
    process.terminate()
    assert process.wait(10) == 128 + signal.SIGTERM and file.read_text() == "four\n"


def test_replaces_by_what_the_command_prints(redlock, file):
    done = gate(redlock, 5, file, "echo", "five")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert file.read_text() == "five\n"
    assert left(file) == ["report", "report.fence"]


def test_fence_comes_from_the_environment_and_goes_to_the_command(redlock, file):
    done = redlock("gate", str(file), "sh", "-c", "echo $REDLOCK_FENCE", environ={"REDLOCK_FENCE": "9007199254740991"})
    assert (done.returncode, file.read_text()) == (0, "9007199254740991\n")
    done = redlock("gate", "--fence", "9007199254740991", str(file), "sh", "-c", "echo again $REDLOCK_FENCE",
                   environ={"REDLOCK_FENCE": "1"})
    assert (done.returncode, file.read_text()) == (0, "again 9007199254740991\n")


def test_lower_fence_is_refused_before_the_command_runs(redlock, file, tmp_path):
    assert gate(redlock, 7, file, "echo", "seven").returncode == 0
    done = gate(redlock, 6, file, "sh", "-c", f"touch {tmp_path}/ran; echo six")
    assert done.returncode == LOST
    assert "fence 6 is lower than 7, which was here before; the command was not started" in done.stderr.decode()
    assert left(file) == ["report", "report.fence"] and file.read_text() == "seven\n"
    assert gate(redlock, 7, file, "echo", "seven again").returncode == 0
    assert file.read_text() == "seven again\n"
    assert redlock("gate", "-q", "--fence", "6", str(file), "true").stderr == b""


def test_a_later_reader_stops_an_earlier_writer(redlock, file):
    """PAUSE-WRITE: 1 has read and is paused; 2 has read and not written yet. The touch alone reserves."""
    file.write_text("0\n")
    inner = f"cat {file}; {BINARY} gate --fence 2 {file} -- false"
    done = gate(redlock, 1, file, "sh", "-c", f"{inner}; echo written by 1")
    assert done.returncode == LOST
    assert "fence 1 is lower than 2, which was here before; it was not replaced" in done.stderr.decode()
    assert file.read_text() == "0\n"


# Each makes a name for report.fence or its equal, of which the gate must find out what it is.
NAMES_OF_A_MEMORY = {
    "itself": lambda at: at / "report.fence",
    "link": lambda at: linked(at / "link", at / "report.fence"),
    "relative link": lambda at: linked(at / "link", "report.fence"),
    "chain of links": lambda at: linked(at / "second", linked(at / "first", "report.fence").name),
    "linked directory": lambda at: linked(at / "directory", ".") / "report.fence",
    "hard link": lambda at: hard_linked(at / "hard", at / "report.fence"),
    "of a program": lambda at: (at / "report.fence").rename(at / "service-gate"),
}


def linked(name, target):
    name.symlink_to(target)
    return name


def hard_linked(name, target):
    os.link(target, name)
    return name


@pytest.mark.parametrize("name", NAMES_OF_A_MEMORY)
def test_the_memory_of_a_gate_is_not_replaced(redlock, file, name):
    gate(redlock, 5, file, "echo", "five")
    memory = (file.parent / "report.fence").read_bytes()
    other = NAMES_OF_A_MEMORY[name](file.parent)
    before = left(file)
    done = redlock("gate", "--fence", "9", str(other), "--", "echo", "nine")
    assert done.returncode == USAGE and b"is the memory of a gate" in done.stderr, done
    assert (other.read_bytes(), left(file)) == (memory, before)
    if name != "of a program":
        assert gate(redlock, 4, file, "echo", "four").returncode == LOST and file.read_text() == "five\n"


def test_the_memory_of_another_gate_does_not_come_through_a_link(redlock, file):
    """Else a holder could write the memory of a gate that has seen less, and a stale one would pass."""
    low, link = file.parent / "low", file.parent / "link"
    gate(redlock, 1, low, "echo", "one")
    gate(redlock, 50, file, "echo", "fifty")
    link.symlink_to("report.fence")
    assert gate(redlock, 60, link, "cat", f"{low}.fence").returncode == USAGE
    assert gate(redlock, 3, file, "echo", "stale").returncode == LOST and file.read_text() == "fifty\n"


def test_a_name_of_a_memory_is_kept_free(redlock, file):
    """A command could write there what the gate of `report` has not seen."""
    done = redlock("gate", "--fence", "9", f"{file}.fence", "--", "echo", "nine")
    assert done.returncode == USAGE and b"is the memory of a gate" in done.stderr, done
    assert left(file) == []


@pytest.mark.parametrize("target", ["other.fence", "other", "absent"])
def test_a_memory_is_no_link(redlock, file, target):
    """It would be that of another gate, or be replaced by another gate."""
    gate(redlock, 5, file.with_name("other"), "echo", "five")
    file.with_name("report.fence").symlink_to(target)
    before = left(file)
    done = gate(redlock, 9, file, "echo", "nine")
    assert (done.returncode, b"report.fence is a symbolic link" in done.stderr) == (USAGE, True), done
    assert left(file) == before
    assert gate(redlock, 4, file.with_name("other"), "echo", "four").returncode == LOST


@pytest.mark.parametrize("script, status", [("echo half; exit 3", 3), ("echo half; kill -9 $$", 137), ("exit 80", 80)])
def test_failed_command_replaces_nothing(redlock, file, script, status):
    file.write_text("whole\n")
    assert gate(redlock, 5, file, "sh", "-c", script).returncode == status
    assert file.read_text() == "whole\n"
    assert left(file) == ["report", "report.fence"]


def test_command_that_cannot_run(redlock, file, tmp_path):
    assert gate(redlock, 5, file, "no-such-command").returncode == 127
    assert gate(redlock, 5, file, str(tmp_path)).returncode == 126
    assert not file.exists()


@pytest.mark.parametrize("arguments, environ, message", [
    (["f", "true"], {}, "classic mode has no fencing tokens"),
    (["f", "true"], {"REDLOCK_FENCE": ""}, "no fence"),
    (["f", "true"], {"REDLOCK_FENCE": "0"}, "REDLOCK_FENCE: '0' is not a number from 1"),
    (["f", "true"], {"REDLOCK_FENCE": "x"}, "REDLOCK_FENCE: 'x'"),
    (["--fence", "9007199254740992", "f", "true"], {}, "--fence: '9007199254740992' is not a number"),
    (["--fence", "-1", "f", "true"], {}, "--fence: '-1'"),
    (["--fence", "+5", "f", "true"], {}, "--fence: '+5' is not a number"),
    (["--fence", " 5", "f", "true"], {}, "--fence: ' 5' is not a number"),
    (["--fence", "5 ", "f", "true"], {}, "--fence: '5 ' is not a number"),
    (["--fence", "", "f", "true"], {}, "--fence: '' is not a number"),
    (["--fence", "99999999999999999999", "f", "true"], {}, "is not a number"),
    (["f", "true"], {"REDLOCK_FENCE": " 5"}, "REDLOCK_FENCE: ' 5' is not a number"),
    (["--fence", "1"], {}, "needs a file and a command"),
    (["--fence", "1", "f"], {}, "needs a command"),
    (["--fence", "1", "f", "--"], {}, "needs a command"),
    (["--fence", "1", "", "true"], {}, "needs a file"),
    (["--fenc", "1", "f", "true", "-N"], {}, None),
    (["-N", "redis://x", "f", "true"], {}, "unknown option '-N'"),
])
def test_command_line(redlock, tmp_path, arguments, environ, message):
    done = redlock("gate", *arguments, environ=environ, cwd=tmp_path)
    if message is None:  # getopt's abbreviations; and what follows the file is the command's
        assert done.returncode == 0 and sorted(os.listdir(tmp_path)) == ["f", "f.fence"]
        return
    assert message in done.stderr.decode()
    assert done.returncode == USAGE
    assert os.listdir(tmp_path) == []


def test_what_cannot_be_replaced(redlock, tmp_path):
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "circle").symlink_to("circle")
    for name in (".", "/dev/null", "no-such-directory/f", "f/", "dangling", "circle"):
        done = redlock("gate", "--fence", "1", name, "true", cwd=tmp_path)
        assert done.returncode == SYSTEM, name
        assert "cannot be replaced: " in done.stderr.decode()
    assert sorted(os.listdir(tmp_path)) == ["circle", "dangling"]


def test_permissions_stay_and_a_link_is_followed(redlock, file, tmp_path):
    file.write_text("old")
    file.chmod(0o640)
    (tmp_path / "link").symlink_to("report")
    assert redlock("gate", "--fence", "1", "link", "echo", "new", cwd=tmp_path).returncode == 0
    assert file.read_text() == "new\n" and file.stat().st_mode & 0o7777 == 0o640
    assert left(file) == ["link", "report", "report.fence"]
    done = redlock("gate", "--fence", "1", "fresh", "true", cwd=tmp_path, preexec_fn=lambda: os.umask(0o027))
    assert done.returncode == 0 and (tmp_path / "fresh").stat().st_mode & 0o7777 == 0o640


# ---- access control lists ----

USER_OBJ, USER, GROUP_OBJ, MASK, OTHER = 0x01, 0x02, 0x04, 0x10, 0x20
ANY = 0xffffffff


def acl(*entries):
    """The kernel's form of (tag, rights) or (tag, rights, id)."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry[:2], *(entry[2:] or [ANY])) for entry in entries)


def acl_of(path, kind="access"):
    try:
        return os.getxattr(path, f"system.posix_acl_{kind}")
    except OSError as error:
        assert error.errno == errno.ENODATA
        return None


# user 1234 may read and write, the owning group may do nothing: `ls -l` shows rw-rw----
FOR_ONE = acl((USER_OBJ, 6), (USER, 6, 1234), (GROUP_OBJ, 0), (MASK, 6), (OTHER, 0))


def test_an_acl_stays(redlock, file):
    file.write_text("old")
    os.setxattr(file, "system.posix_acl_access", FOR_ONE)
    assert gate(redlock, 1, file, "echo", "new").returncode == 0
    assert (file.read_text(), acl_of(file), oct(file.stat().st_mode & 0o7777)) == ("new\n", FOR_ONE, "0o660")


def test_a_file_without_an_acl_gets_none_from_its_directory(redlock, file):
    """Its mode's group bits would be the mask of that ACL, and let its users read."""
    file.write_text("old")
    file.chmod(0o640)
    os.setxattr(file.parent, "system.posix_acl_default", FOR_ONE)
    assert gate(redlock, 1, file, "echo", "new").returncode == 0
    assert (file.read_text(), acl_of(file), oct(file.stat().st_mode & 0o7777)) == ("new\n", None, "0o640")


def test_a_new_file_gets_the_acl_that_its_directory_gives(redlock, file):
    os.setxattr(file.parent, "system.posix_acl_default", FOR_ONE)
    assert gate(redlock, 1, file, "echo", "new").returncode == 0
    (file.parent / "usual").touch()
    assert acl_of(file) == acl_of(file.parent / "usual") == FOR_ONE


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a file of another user")
def test_an_acl_that_meets_another_group_gives_it_nothing(redlock):
    """The new file belongs to this user's group: it does not get the rights of the old one's."""
    before, after = (acl((USER_OBJ, 6), (USER, 4, 1234), (GROUP_OBJ, rights), (MASK, 6), (OTHER, 0)) for rights in (6, 0))
    with tempfile.TemporaryDirectory() as directory:
        file = pathlib.Path(directory) / "report"
        assert gate(redlock, 1, file, "echo", "one").returncode == 0
        os.setxattr(file, "system.posix_acl_access", before)
        file.with_name("report.fence").chmod(0o666)
        file.parent.chmod(0o777)
        done = gate(redlock, 2, file, "echo", "two", user=65534, group=65534, extra_groups=[])
        assert (done.returncode, file.read_text(), acl_of(file)) == (0, "two\n", after), done
        assert (file.stat().st_uid, file.stat().st_gid) == (65534, 65534)


# ---- what is next to the file ----

@pytest.mark.parametrize("name", ["report.fence.new", "report.new"])
def test_files_of_others_next_to_it_stay(redlock, file, name):
    other = file.parent / name
    assert gate(redlock, 1, other, "echo", "other").returncode == 0
    assert gate(redlock, 1, file, "echo", "one").returncode == 0
    assert (other.read_text(), file.read_text()) == ("other\n", "one\n")
    assert left(file) == sorted(["report", "report.fence", name, f"{name}.fence"])


def test_a_name_as_long_as_the_memory_allows(redlock, tmp_path):
    file = tmp_path / ("n" * (255 - len(".fence")))
    done = gate(redlock, 1, file, "echo", "one")
    assert (done.returncode, file.read_text()) == (0, "one\n"), done


# ---- places that cannot be written ----

def on_a_small_disk(redlock, tmp_path, script):
    """The script sees an empty file system of 64 KiB in a mount of its own, with $R: redlock."""
    private = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    made = 'mount -t tmpfs -o size=64k,mode=755 none "$1" && cd "$1" && '
    return subprocess.run([*private, "sh", "-c", made + script, "sh", str(tmp_path)], timeout=30, capture_output=True,
                          env={**redlock.environ, "R": BINARY}, check=False)


def test_a_full_disk_leaves_the_old_content(redlock, tmp_path):
    done = on_a_small_disk(redlock, tmp_path, """
        "$R" gate --fence 1 f -- echo one || exit 9
        "$R" gate --fence 2 f -- head -c 300000 /dev/zero; echo "$?"
        head -c 300000 /dev/zero > filler 2> /dev/null; : > f.empty
        "$R" gate --fence 3 f -- echo three; echo "$?"
        "$R" gate --fence 1 g -- echo new; echo "$?"
        cat f; ls -A; rm filler
        "$R" gate --fence 3 f -- echo three && cat f""")
    said = done.stderr.decode()
    assert done.stdout.decode().split() == ["71", "71", "71", "one", "f", "f.empty", "f.fence", "filler", "three"], done
    assert said.count("No space left on device") == 3 and "cannot write next to" in said, said


def test_a_read_only_directory_stays_as_it_was(redlock, tmp_path):
    done = on_a_small_disk(redlock, tmp_path, """
        "$R" gate --fence 1 f -- echo one && mount -o remount,ro . || exit 9
        "$R" gate --fence 2 f -- touch ran; echo "$?"
        "$R" gate --fence 2 new -- touch ran; echo "$?"
        cat f; ls -A""")
    assert done.stdout.decode().split() == ["71", "71", "one", "f", "f.fence"], done
    assert done.stderr.decode().count("Read-only file system") == 2, done


def test_a_directory_that_this_user_may_not_write(redlock):
    """Its file may be writable: but no new one can take its place."""
    with tempfile.TemporaryDirectory() as directory:
        file = pathlib.Path(directory) / "report"
        assert gate(redlock, 1, file, "echo", "one").returncode == 0
        for path, mode in (file, 0o666), (file.with_name("report.fence"), 0o666), (file.parent, 0o555):
            path.chmod(mode)
        done = gate(redlock, 2, file, "echo", "two", user=65534 if os.geteuid() == 0 else None)
        file.parent.chmod(0o755)
        assert (done.returncode, b"Permission denied" in done.stderr, file.read_text()) == (SYSTEM, True, "one\n"), done
        assert left(file) == ["report", "report.fence"]


def test_a_directory_that_takes_the_name_meanwhile(redlock, file):
    done = gate(redlock, 1, file, "mkdir", str(file))
    assert (done.returncode, done.stderr.decode()) == (SYSTEM, f"redlock: cannot replace {file}: Is a directory\n"), done
    assert left(file) == ["report", "report.fence"]


def test_a_directory_that_cannot_be_synced(redlock):
    """Its user may write and not read it: the file is replaced all the same, and the message says so."""
    with tempfile.TemporaryDirectory() as directory:
        file = pathlib.Path(directory) / "report"
        user = 65534 if os.geteuid() == 0 else os.geteuid()
        os.chown(directory, user, -1)
        done = gate(redlock, 1, file, "sh", "-c", f"chmod 300 {directory} && echo one", user=user if os.geteuid() == 0 else None)
        file.parent.chmod(0o755)
        assert (done.returncode, file.read_text(), left(file)) == (SYSTEM, "one\n", ["report", "report.fence"]), done
        assert done.stderr.decode() == (f"redlock: {file} is replaced, but its directory could not be written to disk: Permission denied; "
                                        "a power cut may bring the old content back\n")


def test_damaged_gate_lets_nobody_pass(redlock, file):
    assert gate(redlock, 7, file, "echo", "seven").returncode == 0
    beside = file.with_name("report.fence")
    beside.write_bytes(beside.read_bytes()[:-1])
    done = gate(redlock, 8, file, "echo", "eight")
    assert done.returncode == SYSTEM and b"damaged" in done.stderr
    assert file.read_text() == "seven\n"


def test_signal_is_passed_on(redlock, file, tmp_path):
    file.write_text("old")
    process = redlock.start("gate", "--fence", "1", str(file), "sh", "-c", f"touch {tmp_path}/runs; echo half; exec sleep 30")
    until((tmp_path / "runs").exists, what="the command")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=10) == 128 + signal.SIGTERM
    process.communicate()
    assert file.read_text() == "old"


def whole(text):
    """The fence of the one writer whose output this is."""
    lines = text.splitlines()
    assert len(lines) == 200 and len(set(lines)) == 1 and text.endswith("\n"), text[:200]
    return int(lines[0])


WRITER = """
import sys, time
fence, pause = sys.argv[1], float(sys.argv[2])
print((fence + "\\n") * 100, end="", flush=True)
time.sleep(pause)
print((fence + "\\n") * 100, end="")
"""


def test_contending_writers_killed_at_random(redlock, file):
    """Always one writer's whole output, and fences never go down, whoever is killed whenever."""
    random.seed(3)
    assert gate(redlock, 1, file, sys.executable, "-c", WRITER, "1", "0").returncode == 0
    running, statuses, seen, fence = [], [], 1, 1
    end = time.monotonic() + 20
    while len(statuses) < 120 and time.monotonic() < end:
        while len(running) < 4:
            fence += 1
            mine = max(1, fence - random.randrange(4))  # out of order, some twice
            running.append(redlock.start("gate", "-q", "--fence", str(mine), str(file), "--", sys.executable, "-S", "-c",
                                         WRITER, str(mine), str(random.random() / 50)))
        time.sleep(random.random() / 60)
        if random.random() < 0.2:
            random.choice(running).send_signal(signal.SIGKILL)
        now = whole(file.read_text())
        assert now >= seen
        seen = now
        for process in [process for process in running if process.poll() is not None]:
            running.remove(process)
            process.communicate()
            statuses.append(process.returncode)
    for process in running:
        process.kill()
        process.communicate()
    assert set(statuses) <= {0, LOST, -signal.SIGKILL}
    assert statuses.count(0) > 0 and statuses.count(LOST) > 0 and statuses.count(-signal.SIGKILL) > 0, statuses
    final = fence + 1
    assert gate(redlock, final, file, sys.executable, "-c", WRITER, str(final), "0").returncode == 0
    assert whole(file.read_text()) == final
    drafts = [name for name in left(file) if name.startswith(".redlock-gate.")]  # of processes killed right before their rename
    assert len(drafts) <= statuses.count(-signal.SIGKILL)
    assert left(file) == sorted(["report", "report.fence", *drafts])


COUNTER = """
import json, sys, time
was = json.load(open(sys.argv[1]))
time.sleep(float(sys.argv[2]))
json.dump(was + 1, sys.stdout)
"""


def test_no_update_is_lost(redlock, file):
    """Two at a time read, wait and write, with fences out of order: what was acknowledged is in the file."""
    file.write_text("0")
    random.seed(5)
    acknowledged = 0
    for turn in range(15):
        fences = [2 * turn + 1, 2 * turn + 2]
        random.shuffle(fences)
        both = [redlock.start("gate", "-q", "--fence", str(fence), str(file), sys.executable, "-S", "-c", COUNTER, str(file),
                              str(random.random() / 20)) for fence in fences]
        statuses = [process.wait(timeout=20) for process in both]
        for process in both:
            process.communicate()
        assert set(statuses) <= {0, LOST}
        acknowledged += statuses.count(0)
    assert json.loads(file.read_text()) == acknowledged >= 15


def test_subprocess_output_is_not_read_by_the_gate(redlock, file):
    """Large output goes to the file itself, not through a pipe of ours."""
    done = gate(redlock, 1, file, "head", "-c", "3000000", "/dev/zero")
    assert done.returncode == 0 and file.stat().st_size == 3000000
    assert subprocess.run(["cmp", "-n", "3000000", str(file), "/dev/zero"], check=False).returncode == 0


# ---- a limit on the size of files ----

def size_limit(bytes_max):
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_max, bytes_max))


def test_a_limit_on_the_size_of_files_is_reported(redlock, file):
    done = gate(redlock, 5, file, "echo", "five", preexec_fn=size_limit(0))
    said = done.stderr.decode()
    assert (done.returncode, "report.fence: File too large" in said) == (SYSTEM, True), done
    assert gate(redlock, 5, file, "echo", "five").returncode == 0, "nothing half-written is left"
    done = gate(redlock, 6, file, "echo", "six", preexec_fn=size_limit(0))
    assert (done.returncode, b"File too large" in done.stderr, file.read_text()) == (SYSTEM, True, "five\n"), done


def test_the_command_gets_the_signal_as_it_was(redlock, file):
    """Where the caller ignores it, the command does, too. The limit is that of the gate, which writes the file."""
    assert gate(redlock, 5, file, "echo", "five").returncode == 0
    room = size_limit(os.path.getsize(f"{file}.fence"))
    ignored = "awk '/SigIgn/ { print $2 }' /proc/self/status"

    def ignores():
        room()
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def mask(**more):
        assert gate(redlock, 5, file, "sh", "-c", ignored, **more).returncode == 0
        return int(file.read_text(), 16) >> (signal.SIGXFSZ - 1) & 1

    assert (mask(preexec_fn=room), mask(preexec_fn=ignores)) == (0, 1)
    done = gate(redlock, 5, file, "dd", "if=/dev/zero", "bs=1M", "count=1", "status=none", preexec_fn=room)
    assert done.returncode == SYSTEM and b"cannot write next to" in done.stderr, done
    assert file.stat().st_size < 100
