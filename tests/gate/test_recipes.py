# SPDX-License-Identifier: BSD-2-Clause
"""PAUSE-WRITE at a real resource: the stale writer is refused, and no update is lost."""
import pathlib
import random
import tempfile
import threading

import pytest

from recipes import RESOURCES, File, Missing


@pytest.fixture
def resource(request):
    with tempfile.TemporaryDirectory(prefix="redlock-recipe-") as directory:
        try:
            made = RESOURCES[request.config.getoption("--recipe")](pathlib.Path(directory))
        except Missing as missing:
            pytest.exit(str(missing), returncode=77)
        yield made
        made.close()


def test_growing_fences_are_admitted(resource):
    for fence in (1, 2, 1000, 2**53 - 1):
        was = resource.read(fence)
        assert was == resource.peek()
        assert resource.write(fence, was + 1) == was + 1
    assert resource.peek() == 4
    assert resource.read(2**53 - 2) is None


def test_paused_writer_is_refused_after_a_write(resource):
    stale = resource.read(1)
    was = resource.read(2)
    assert (stale, was) == (0, 0)
    assert resource.write(2, was + 1) == 1
    assert resource.write(1, stale + 1) is None
    assert resource.peek() == 1


def test_paused_writer_is_refused_after_a_mere_read(resource):
    """The reservation: without it, 1's write would be admitted here, and then lost under 2's."""
    stale = resource.read(1)
    was = resource.read(2)
    assert resource.write(1, stale + 1) is None
    assert resource.peek() == 0
    assert resource.write(2, was + 1) == 1
    assert resource.read(1) is None


def test_without_the_reservation_an_update_is_lost(resource):
    """The same, but 2 looks past the gate: both writes are admitted, and one is lost. So the tests here can fail."""
    if isinstance(resource, File):
        return  # the recipe cannot be taken apart: it always reserves
    stale, was = resource.read(1), resource.peek()
    assert resource.write(1, stale + 1) == 1
    assert resource.write(2, was + 1) == 1
    assert resource.peek() == 1


def test_one_fence_may_come_again(resource):
    assert resource.read(7) == 0
    assert resource.write(7, 1) == 1
    assert resource.read(7) == 1
    assert resource.write(7, 2) == 2


def test_readers(resource):
    if not hasattr(resource, "look"):
        return
    assert resource.read(5) == 0
    assert resource.write(5, 1) == 1
    assert resource.look(4) is None
    assert resource.look(7) == resource.look(5) == 1  # readers do not refuse each other
    assert resource.write(5, 2) is None  # the late write of the writer before them
    assert resource.read(7) is None
    assert resource.read(8) == 1
    assert resource.look(7) is None
    assert resource.write(8, 2) == 2
    assert resource.look(8) == 2
    assert resource.write(8, 3) is None


def take_turns(resource, fences, acknowledged):
    for fence in fences:
        was = resource.read(fence)
        if was is not None and resource.write(fence, was + 1) is not None:
            acknowledged.append(fence)


def test_two_contend_out_of_order(resource):
    """Each update that was acknowledged is in the sum; fences come in no order, and no lock keeps the two apart."""
    chooser = random.Random(11)
    fences = [fence + chooser.randrange(6) * 2 for fence in range(1, 81)]  # odd ones to one writer, even ones to the other
    acknowledged = [[], []]
    writers = [threading.Thread(target=take_turns, args=(resource, [fence for fence in fences if fence % 2 == side],
                                                         acknowledged[side])) for side in (0, 1)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert resource.peek() == len(acknowledged[0]) + len(acknowledged[1])
    assert resource.peek() > 0
    everyone = sum(map(len, acknowledged))
    assert everyone < len(fences), "nobody was ever refused"
    for side in acknowledged:
        assert side == sorted(side)
