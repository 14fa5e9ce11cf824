#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What compare.py makes of the figures; no library is needed."""

import contextlib
import io
import math
import unittest

import compare


class Fake(compare.Contestant):
    """Takes `factor` microseconds a byte, and `drift` more in each run."""

    log = []

    def __init__(self, name, factor, drift=1.0, sizes=None):
        super().__init__(name)
        self.factor, self.drift, self.sizes = factor, drift, sizes

    def run(self, world, collective, sizes):
        Fake.log.append(self.name)
        self.factor *= self.drift
        return {size: self.factor * size * 1e-6 for size in sizes
                if self.sizes is None or size in self.sizes}


def race(runners, rounds):
    Fake.log.clear()
    with contextlib.redirect_stderr(io.StringIO()):
        return compare.race(runners, 4, "all_reduce", [4, 16], rounds)


class PairedRatioTest(unittest.TestCase):

    def test_a_constant_ratio_has_no_width(self):
        for got in compare.paired_ratio([1, 2, 30], [2, 4, 60]):
            self.assertAlmostEqual(got, 0.5)

    def test_is_students_t_over_logarithms(self):
        # Logarithms of the ratios: -1, 0 and 1; mean 0, deviation 1, and t is
        # 4.303 with two degrees of freedom.
        ratio, low, high = compare.paired_ratio(
            [math.exp(-1), 1, math.e], [1, 1, 1])
        self.assertAlmostEqual(ratio, 1)
        self.assertAlmostEqual(high, math.exp(4.303 / math.sqrt(3)))
        self.assertAlmostEqual(low, 1 / high)

    def test_many_rounds_stay_in_the_table(self):
        compare.paired_ratio([1, 2] * 50, [1] * 100)


class RaceTest(unittest.TestCase):

    def test_every_other_round_runs_backwards(self):
        race([Fake("Shoal", 1), Fake("A", 2), Fake("B", 3)], 3)
        self.assertEqual("".join(name[0] for name in Fake.log), "SABBASSAB")

    def test_drift_of_the_machine_does_not_widen_the_interval(self):
        rows = compare.table_of(
            race([Fake("Shoal", 1, 1.5), Fake("A", 2, 1.5)], 5))
        for row in rows:
            for got in row["ratios"]["A"]:
                self.assertAlmostEqual(got, 0.5)

    def test_a_size_that_a_peer_lacks_stays_empty(self):
        results = race([Fake("Shoal", 1), Fake("A", 2, sizes=[4])], 2)
        rows = compare.table_of(results)
        self.assertIn("A", rows[0]["ratios"])
        self.assertNotIn("A", rows[1]["ratios"])
        lines = compare.markdown(rows, ["Shoal", "A"]).splitlines()
        self.assertEqual(lines[0].split(), "| bytes | Shoal | A | to A |".split())
        self.assertEqual(lines[2].split(" | ")[2].strip(), "8.0")
        self.assertEqual(len({len(line) for line in lines}), 1)
        self.assertAlmostEqual(compare.medians([rows], "A"), 0.5)
        self.assertIsNone(compare.medians([rows], "B"))


class BestTest(unittest.TestCase):

    def test_is_the_fastest_of_each_row(self):
        rows = compare.table_of(race(
            [Fake("Shoal", 3), Fake("ring", 2), Fake("direct", 4)], 2))
        name, (ratio, _, _) = compare.best_of(rows[0])
        self.assertEqual(name, "ring")
        self.assertAlmostEqual(ratio, 1.5)
        lines = compare.best_table({2: rows, 4: rows[1:]}).splitlines()
        self.assertEqual(lines[0], "| bytes | 2 ranks | 4 ranks |")
        self.assertEqual(lines[2], "| 4 | ring 1.50 (1.50 to 1.50) |  |")
        self.assertEqual(lines[3].count("ring 1.50"), 2)


class TextTest(unittest.TestCase):

    def test_sizes_and_times(self):
        self.assertEqual([compare.size_text(s) for s in (4, 1024, 1 << 26)],
                         ["4", "1 Ki", "64 Mi"])
        self.assertEqual(compare.time_text(99.94e-6), "99.9")
        self.assertEqual(compare.time_text(1234.5e-6), "1234")
        self.assertEqual(compare.ratio_text((0.5, 0.25, 1e22)),
                         "0.50 (0.25 to > 999)")

    def test_the_sizes_are_those_of_the_documents(self):
        self.assertEqual(compare.DEFAULT_SIZES[0], 4)
        self.assertEqual(compare.DEFAULT_SIZES[-1], 64 << 20)


class ArgumentsTest(unittest.TestCase):

    def test_bad_ones_are_refused(self):
        for arguments in (["--world=1"], ["--sizes=4,16,32"], ["--sizes=2"],
                          ["--rounds=1"], ["--collective=scan"],
                          ["--world=x"]):
            with self.assertRaises(SystemExit), \
                    contextlib.redirect_stderr(io.StringIO()):
                compare.parse_arguments(arguments)
        self.assertEqual(compare.parse_arguments(["--world=2,4"]).world,
                         [2, 4])


class CommandTest(unittest.TestCase):

    def test_all_are_asked_for_the_same(self):
        shoal = compare.Shoal("bench").command(4, "all_reduce", [4, 16, 64],
                                               "out")
        self.assertIn("--halves=in_place", shoal)
        self.assertEqual(shoal[shoal.index("-f") + 1], "4")
        peer = compare.Driver("A", "a", ("all_reduce",), compare.mpirun)
        command = peer.command(4, "all_reduce", [4, 16, 64], "out")
        self.assertEqual(command[0], "mpirun")
        self.assertIn("--sizes=4,16,64", command)


if __name__ == "__main__":
    unittest.main()
