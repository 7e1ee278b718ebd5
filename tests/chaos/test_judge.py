# SPDX-License-Identifier: BSD-2-Clause
"""The judge sees what it must see, and nothing else."""
import pathlib
import tempfile
import unittest

from judge import EXTENDED, FOREVER, GRANT, LAYOUT, LEAVE, LOST, REFUSED, TICK, Judge, Reader


def grant(at, end, fence=0, resource=0, slot=0, turn=1):
    return LAYOUT.pack(at, end, fence, at - 1, GRANT, resource, slot, turn)


def event(kind, at, end=0, fence=0, asked=0, resource=0, slot=0, turn=1):
    return LAYOUT.pack(at, end, fence, asked, kind, resource, slot, turn)


class JudgeTest(unittest.TestCase):
    def judged(self, *logs, dead=()):
        judge = Judge()
        for number, data in enumerate(logs):
            judge.feed(f"w{number}.1", data)
        for number in dead:
            judge.died(f"w{number}.1")
        return judge

    def kinds(self, *logs, dead=()):
        return [each.kind for each in self.judged(*logs, dead=dead).violations]

    def test_in_turn(self):
        self.assertEqual(self.kinds(grant(10, 100, 5) + event(LEAVE, 20, 100), grant(20, 110, 6) + event(LEAVE, 30, 110)), [])

    def test_two_at_once(self):
        self.assertEqual(self.kinds(grant(10, 100) + event(LEAVE, 20, 100), grant(19, 110) + event(LEAVE, 30, 110)), ["overlap"])

    def test_one_inside_the_other(self):
        self.assertEqual(self.kinds(grant(10, 100) + event(LEAVE, 90, 100), grant(40, 60) + event(LEAVE, 50, 60)), ["overlap"])

    def test_whichever_log_is_read_first(self):
        self.assertEqual(self.kinds(grant(19, 110) + event(LEAVE, 30, 110), grant(10, 100) + event(LEAVE, 20, 100)), ["overlap"])

    def test_other_resources_are_no_rivals(self):
        self.assertEqual(self.kinds(grant(10, 100) + event(LEAVE, 90, 100), grant(40, 60, resource=1) + event(LEAVE, 50, 60, resource=1)), [])

    def test_validity_ends_before_the_release(self):
        self.assertEqual(self.kinds(grant(10, 40) + event(LEAVE, 90, 0), grant(40, 60) + event(LEAVE, 50, 60)), [])

    def test_a_renewed_lease_lasts(self):
        self.assertEqual(self.kinds(grant(10, 40) + event(EXTENDED, 30, 80) + event(LEAVE, 90, 80), grant(50, 60) + event(LEAVE, 55, 60)),
                         ["overlap"])

    def test_a_lost_lease_ends_with_the_report(self):
        self.assertEqual(self.kinds(grant(10, 90) + event(LOST, 30), grant(30, 60) + event(LEAVE, 50, 60)), [])

    def test_a_dead_holder_keeps_its_lease_until_validity_ends(self):
        second = grant(50, 160) + event(LEAVE, 70, 160)
        self.assertEqual(self.kinds(grant(10, 60), second), [], "nothing is said of a grant that may still be left")
        self.assertEqual(self.kinds(grant(10, 60), second, dead=[0]), ["overlap"])
        self.assertEqual(self.kinds(grant(10, 50), second, dead=[0]), [])

    def test_a_command_is_inside_as_long_as_it_ticks(self):
        command = grant(10, FOREVER) + event(TICK, 20) + event(TICK, 30)
        self.assertEqual(self.kinds(command, grant(30, 60) + event(LEAVE, 50, 60), dead=[0]), [])
        self.assertEqual(self.kinds(command, grant(29, 60) + event(LEAVE, 50, 60), dead=[0]), ["overlap"])

    def test_fences_grow(self):
        for second, expected in ((4, ["fence"]), (5, ["fence"]), (6, [])):
            self.assertEqual(self.kinds(grant(10, 100, 5) + event(LEAVE, 20, 100), grant(30, 110, second) + event(LEAVE, 40, 110)), expected)

    def test_register(self):
        self.assertEqual(self.kinds(event(REFUSED, 10, 20, 5, 6)), ["register"], "inside its validity")
        judge = self.judged(event(REFUSED, 20, 20, 5, 6))
        self.assertEqual((judge.refused, judge.violations), (1, []), "a holder that was stopped past its validity is to be refused")

    def test_counts(self):
        judge = self.judged(grant(10, 100) + event(LEAVE, 20, 100) + grant(70, 160, turn=2))
        self.assertEqual((judge.grants, judge.longest_gap), (2, 60))

    def test_reader(self):
        with tempfile.TemporaryDirectory() as directory:
            judge, path = Judge(), pathlib.Path(directory) / "a.1.log"
            reader = Reader(judge, directory)
            reader.read("a.1")  # nothing is there yet
            path.write_bytes(grant(10, 100) + event(LEAVE, 20, 100)[:5])
            reader.read("a.1")
            self.assertEqual(judge.grants, 1)
            path.write_bytes(grant(10, 100) + event(LEAVE, 20, 100) + grant(30, 130, turn=2))
            reader.close("a.1")
            reader.read("a.1")
            self.assertEqual((judge.grants, judge.violations), (2, []))


if __name__ == "__main__":
    unittest.main()
