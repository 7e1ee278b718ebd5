# SPDX-License-Identifier: BSD-2-Clause
"""The judge sees what it must see, and nothing else."""
import pathlib
import tempfile
import unittest

from judge import (DOWNGRADE, ELECTIONS, EXTENDED, FOREVER, GRANT, LAYOUT, LEAVE, LOST, OBSERVED, REFUSED, SEMAPHORES, SHARED, TICK, Judge,
                   Reader, id_of)


def grant(at, end, fence=0, resource=0, slot=0, turn=1, kind=GRANT, asked=None):
    return LAYOUT.pack(at, end, fence, at - 1 if asked is None else asked, kind, resource, slot, turn)


def reads(at, end, fence=0, **more):
    return grant(at, end, fence, kind=SHARED, **more)


def held(at, until, fence=0, resource=0, kind=GRANT, turn=1, **more):
    """From a grant to its release."""
    return (grant(at, until + 100, fence, resource=resource, kind=kind, turn=turn, **more)
            + event(LEAVE, until, until + 100, resource=resource, turn=turn))


def slot_of(semaphore, slot):
    return SEMAPHORES + 16 * semaphore + slot


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

    # ---- readers and writers ----

    def test_readers_may_be_inside_together(self):
        self.assertEqual(self.kinds(held(10, 90, 5, kind=SHARED), held(20, 80, 5, kind=SHARED), held(30, 95, 7, kind=SHARED)), [])

    def test_a_writer_excludes_readers_and_they_exclude_it(self):
        reader, writer = held(10, 90, 5, kind=SHARED), held(40, 60, 6)
        for logs in ((reader, writer), (writer, reader)):
            self.assertEqual(self.kinds(*logs), ["overlap"])
        reader, writer = held(40, 60, 6, kind=SHARED), held(10, 90, 5)
        for logs in ((reader, writer), (writer, reader)):
            self.assertEqual(self.kinds(*logs), ["overlap"])

    def test_each_reader_counts_that_a_writer_meets(self):
        others = held(10, 30, kind=SHARED), held(12, 70, kind=SHARED), held(14, 40, kind=SHARED), held(14, 72, kind=SHARED)
        self.assertEqual(self.kinds(*others, held(60, 80)), ["overlap"] * 2)

    def test_a_writer_after_all_readers(self):
        self.assertEqual(self.kinds(held(10, 30, 5, kind=SHARED), held(12, 50, 5, kind=SHARED), held(50, 80, 6)), [])

    def test_a_dead_reader_keeps_writers_out(self):
        self.assertEqual(self.kinds(reads(10, 60), held(50, 70), dead=[0]), ["overlap"])
        self.assertEqual(self.kinds(reads(10, 50), held(50, 70), dead=[0]), [])

    def downgraded(self, at, then, until, fence=0):
        return grant(at, until + 100, fence) + event(DOWNGRADE, then, until + 100) + event(LEAVE, until, until + 100)

    def test_a_downgraded_writer_admits_readers_from_then_on(self):
        writer = self.downgraded(10, 40, 90, 5)
        self.assertEqual(self.kinds(writer, held(40, 60, 5, kind=SHARED)), [])
        for logs in ((writer, held(39, 60, 5, kind=SHARED)), (held(39, 60, 5, kind=SHARED), writer)):
            self.assertEqual(self.kinds(*logs), ["overlap"])

    def test_a_downgraded_writer_admits_no_writer(self):
        for at in (20, 50, 89):
            self.assertIn("overlap", self.kinds(self.downgraded(10, 40, 90), held(at, 95)))
        self.assertEqual(self.kinds(self.downgraded(10, 40, 90, 5), held(90, 95, 6)), [])

    def test_a_dead_downgraded_writer_reads_until_its_validity_ends(self):
        dead = grant(10, 60, 5) + event(DOWNGRADE, 40, 80)
        self.assertEqual(self.kinds(dead, held(50, 70, 5, kind=SHARED), dead=[0]), [])
        self.assertEqual(self.kinds(dead, held(79, 95, 6), dead=[0]), ["overlap"])

    def test_fences_of_readers(self):
        writer = held(10, 20, 5)
        for fence, expected in ((4, ["fence"]), (5, []), (6, [])):
            for logs in ((writer, held(30, 40, fence, kind=SHARED)), (held(30, 40, fence, kind=SHARED), writer)):
                self.assertEqual(self.kinds(*logs), expected, "a reader's is not below that of the writer before it")
        reader = held(10, 20, 5, kind=SHARED)
        for fence, expected in ((4, ["fence"]), (5, ["fence"]), (6, [])):
            for logs in ((reader, held(30, 40, fence)), (held(30, 40, fence), reader)):
                self.assertEqual(self.kinds(*logs), expected, "a writer's is above that of the reader before it")

    def test_fences_of_two_readers(self):
        first = held(10, 90, 7, kind=SHARED)
        self.assertEqual(self.kinds(first, held(20, 80, 6, kind=SHARED, asked=10)), ["fence"])
        self.assertEqual(self.kinds(held(20, 80, 6, kind=SHARED, asked=10), first), ["fence"])
        self.assertEqual(self.kinds(first, held(20, 80, 6, kind=SHARED, asked=9)), [], "both asked at the same time")
        self.assertEqual(self.kinds(first, held(20, 80, 7, kind=SHARED, asked=10)), [])

    def test_fences_are_compared_with_all_before(self):
        """Not only with the one just before."""
        logs = held(10, 11, 9, kind=SHARED, asked=9), held(10, 12, 5, kind=SHARED, asked=8), held(20, 30, 7)
        self.assertEqual(self.kinds(*logs), ["fence"])
        self.assertEqual(self.kinds(*reversed(logs)), ["fence"])

    def test_fences_after_a_downgrade(self):
        writer = self.downgraded(10, 40, 90, 5)
        for fence, expected in ((4, ["fence"]), (5, [])):
            self.assertEqual(sorted(set(self.kinds(writer, held(50, 60, fence, kind=SHARED)))), expected)
        self.assertIn("fence", self.kinds(writer, held(95, 99, 5)))

    # ---- slots ----

    def test_each_slot_has_one_holder(self):
        one, two = slot_of(1, 1), slot_of(1, 2)
        self.assertEqual(self.kinds(held(10, 90, 5, one), held(20, 80, 5, two)), [], "fences of two slots say nothing of each other")
        self.assertEqual(self.kinds(held(10, 90, 5, one), held(20, 80, 6, one)), ["overlap"])
        self.assertEqual(self.kinds(held(10, 20, 5, one), held(30, 80, 5, one)), ["fence"])

    def test_no_slot_beyond_the_last(self):
        """Semaphore 1 has three slots."""
        for slot, expected in ((0, ["slots"]), (1, []), (3, []), (4, ["slots"])):
            self.assertEqual(self.kinds(held(10, 20, resource=slot_of(1, slot))), expected)

    def test_no_more_holders_than_slots(self):
        """However they are called: slots 1 and 2 of semaphore 0, and once more 1."""
        judge = self.judged(held(10, 90, resource=slot_of(0, 1)), held(20, 80, resource=slot_of(0, 2)), held(30, 70, resource=slot_of(0, 1)))
        self.assertEqual([each.kind for each in judge.violations], ["overlap", "slots"])
        self.assertIn("3 holders of 2 slots", judge.violations[1].text)
        self.assertEqual(self.kinds(held(10, 90, resource=slot_of(0, 1)), held(20, 80, resource=slot_of(0, 2)),
                                    held(90, 99, resource=slot_of(0, 1))), [])

    # ---- leaders ----

    def seen(self, at, term, leader, sure, resource=ELECTIONS):
        return event(OBSERVED, at, sure, term, id_of(leader), resource)

    def leaders(self, *logs, dead=()):
        judge = self.judged(*logs, dead=dead)
        judge.leaders.finish()
        return [each.kind for each in judge.violations]

    def test_ids(self):
        """As record.c computes them (test_register.c)."""
        self.assertEqual((id_of(""), id_of("lead0.1")), (7347990519673328018, 7079764514269746844))

    def test_observers_agree_about_a_term(self):
        lead = held(10, 50, 5, ELECTIONS)
        self.assertEqual(self.leaders(lead, self.seen(20, 5, "w0.1", 40), self.seen(25, 5, "w0.1", 45)), [])
        self.assertEqual(self.leaders(self.seen(20, 5, "a", 40), self.seen(25, 5, "b", 45)), ["leader"])
        self.assertEqual(self.leaders(lead, self.seen(20, 5, "w1.1", 40)), ["leader"], "nor does it differ from who leads")
        self.assertEqual(self.leaders(self.seen(20, 5, "a", 40), self.seen(25, 5, "b", 45, ELECTIONS + 1)), [])

    def test_terms_do_not_fall(self):
        self.assertEqual(self.leaders(self.seen(10, 5, "a", 40) + self.seen(20, 6, "b", 40) + self.seen(30, 6, "b", 50)), [])
        self.assertEqual(self.leaders(self.seen(10, 6, "a", 40) + self.seen(20, 5, "b", 40)), ["leader"])
        self.assertEqual(self.leaders(self.seen(10, 6, "a", 40), self.seen(20, 5, "b", 40)), [], "of two observers one may be behind")

    def test_nobody_else_leads_while_an_observer_is_sure(self):
        dead, seen = grant(10, 40, 5, ELECTIONS), self.seen(20, 5, "w0.1", 60)
        self.assertEqual(self.leaders(dead, seen, held(59, 90, 6, ELECTIONS), dead=[0]), ["leader"])
        self.assertEqual(self.leaders(dead, seen, held(60, 90, 6, ELECTIONS), dead=[0]), [])
        self.assertEqual(self.leaders(held(10, 50, 5, ELECTIONS), seen, held(52, 90, 6, ELECTIONS)), [], "it resigned")
        lost = grant(10, 90, 5, ELECTIONS) + event(LOST, 50, resource=ELECTIONS)
        self.assertEqual(self.leaders(lost, seen, held(52, 90, 6, ELECTIONS)), [], "it was lost, and released")


if __name__ == "__main__":
    unittest.main()
