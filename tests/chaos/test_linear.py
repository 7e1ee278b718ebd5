# SPDX-License-Identifier: BSD-2-Clause
"""Porcupine, with the models of linear/, accepts what can be a lock or a semaphore, and rejects what cannot."""
import pathlib
import tempfile
import unittest

import linear
from judge import Judge
from test_judge import event, grant, held, slot_of
from judge import DOWNGRADE, LEAVE, SHARED


def told(at, until, fence=0, asked=None, **more):
    return {"asked": at - 1 if asked is None else asked, "at": at, "until": until, "fence": fence, "reads": False, "downgraded": 0,
            "slot": 0, **more}


def reader(at, until, fence=0, **more):
    return told(at, until, fence, reads=True, **more)


def slot(number, at, until, fence=0, **more):
    return told(at, until, fence, slot=number, **more)


class LinearTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.program, why = linear.build(pathlib.Path(cls.directory.name))
        if cls.program is None:
            cls.directory.cleanup()
            raise unittest.SkipTest(why)

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def accepts(self, *grants, slots=0):
        story = {"name": "a story", "slots": slots, "grants": [{**each, "id": i + 1} for i, each in enumerate(grants)]}
        counts, _ = linear.run(self.program, [story])
        self.assertEqual(counts[2], 0, "decided")
        return counts == (1, 0, 0)

    def both(self, good, bad, slots=0):
        self.assertTrue(self.accepts(*good, slots=slots))
        self.assertFalse(self.accepts(*bad, slots=slots))

    def test_writers(self):
        self.both([told(10, 20), told(20, 40), told(50, 60)], [told(10, 20), told(19, 40), told(50, 60)])
        self.both([told(10, 20, 5), told(30, 40, 6)], [told(10, 20, 5), told(30, 40, 5)])

    def test_readers_are_inside_together(self):
        self.both([reader(10, 50), reader(20, 60), reader(30, 40)], [told(10, 50), reader(20, 60), reader(30, 40)])

    def test_a_writer_comes_after_the_last_reader(self):
        readers = [reader(10, 50), reader(20, 60), reader(30, 40)]
        self.both([*readers, told(60, 70)], [*readers, told(59, 70)])
        self.both([told(10, 20), reader(20, 30)], [told(10, 20), reader(19, 30)])

    def test_fences_of_readers(self):
        self.both([told(10, 20, 5), reader(30, 40, 5)], [told(10, 20, 5), reader(30, 40, 4)])
        self.both([reader(10, 20, 5), told(30, 40, 6)], [reader(10, 20, 5), told(30, 40, 5)])
        self.both([reader(10, 90, 7), reader(20, 80, 6, asked=9)], [reader(10, 90, 7), reader(20, 80, 6, asked=11)])

    def test_fences_are_compared_with_all_before(self):
        self.both([told(10, 20, 5), reader(30, 40, 9), reader(50, 60, 9), told(70, 80, 10)],
                  [told(10, 20, 5), reader(30, 40, 9), reader(50, 60, 9), told(70, 80, 8)])

    def test_a_downgraded_writer(self):
        writer = told(10, 90, 5, downgraded=40)
        self.both([writer, reader(41, 60, 5), told(90, 95, 6)], [writer, reader(39, 60, 5), told(90, 95, 6)])
        self.both([writer, reader(41, 60, 5), told(90, 95, 6)], [writer, reader(41, 60, 5), told(89, 95, 6)])
        self.both([writer, reader(41, 60, 5)], [writer, reader(41, 60, 4)])
        self.both([writer, told(90, 95, 6)], [writer, told(90, 95, 5)])

    def test_slots(self):
        two = [slot(1, 10, 50), slot(2, 20, 60)]
        self.both([*two, slot(1, 50, 70)], [*two, slot(1, 49, 70)], slots=2)
        self.both([*two, slot(3, 30, 70)], [*two, slot(4, 30, 70)], slots=3)
        self.both([slot(2, 10, 20, 5), slot(1, 30, 40, 5)], [slot(2, 10, 20, 5), slot(2, 30, 40, 5)], slots=2)

    def test_more_holders_than_slots(self):
        three = [slot(1, 10, 50), slot(2, 20, 60), slot(3, 30, 40)]
        self.assertTrue(self.accepts(*three, slots=3))
        self.assertFalse(self.accepts(*three, slots=2))
        self.assertFalse(self.accepts(slot(0, 10, 20), slots=2))

    def test_what_workers_write_down(self):
        """From their records to porcupine: each history is right, and wrong with a planted grant."""
        judge = Judge()
        judge.feed("w0.1", b"".join(held(10 * i, 10 * i + 8, 10 * i, turn=i) for i in range(1, 20)))
        judge.feed("w1.1", b"".join(held(200 + i, 240 + i, 200, kind=SHARED, turn=i, slot=i) for i in range(1, 20)))
        judge.feed("w2.1", grant(300, 400, 300) + event(DOWNGRADE, 320, 400) + event(LEAVE, 350, 400))
        judge.feed("w3.1", held(330, 340, 300, kind=SHARED))
        for number in (1, 2):
            judge.feed(f"v{number}.1", b"".join(held(10 * i, 10 * i + 9, i, slot_of(0, number), turn=i) for i in range(1, 50)))
        self.assertEqual(judge.violations, [])
        stories = list(linear.histories(judge))
        self.assertEqual(linear.kinds(stories), {"slots": 3, "readers and writers": 1, "writers": 0})
        self.assertEqual(linear.run(self.program, stories)[0], (4, 0, 0))
        bad = [linear.planted(story) for story in stories]
        self.assertEqual(linear.run(self.program, bad)[0], (0, 4, 0))


if __name__ == "__main__":
    unittest.main()
