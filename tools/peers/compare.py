#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures Shoal and its peers side by side; README.md says what and how.

Usage: bazel run //tools/peers:compare -- [--world 2,4,8] [--collective NAME]
           [--rounds N] [--sizes 4,16,...] [--json FILE] [--algorithms]
"""

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "broadcast",
               "all_to_all", "ping_pong")
# Those for which Shoal has a choice; `comm_bench --explain` shows it.
ALGORITHMS = {
    "all_reduce": ("ring", "recursive-doubling", "direct", "one-shot",
                   "halving-doubling", "tree"),
    "reduce_scatter": ("ring", "direct"),
    "all_gather": ("ring", "direct"),
    "broadcast": ("binomial-tree", "chain", "linear"),
    "reduce": ("tree", "chain", "linear"),
}
# Which of comm_bench's two figures is held against the peers'.
IN_PLACE = ("all_reduce", "broadcast", "ping_pong", "reduce")
DEFAULT_SIZES = [4 ** n for n in range(1, 14)]  # 4 B to 64 MiB
SETUP = "run tools/peers/setup.sh"
# No sweep of a world takes longer.
LIMIT_SECONDS = 300

# Student's t: 97.5 % of the distribution lie below, by degrees of freedom.
T_975 = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
         2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
         2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042]


def paired_ratio(ours, theirs):
    """The ratio of paired times, and its 95 % interval.

    By Student's t over the logarithms of the rounds' ratios, of which there are
    two or more: (geometric mean, low, high).
    """
    logs = [math.log(a / b) for a, b in zip(ours, theirs)]
    mean = statistics.fmean(logs)
    t = T_975[min(len(logs) - 2, len(T_975) - 1)]
    half = t * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


class Contestant:
    """Something that can run a sweep.

    Attributes:
      name: as it is shown.
      collectives: those that it has.
      why_not: why it cannot run, or None.
    """

    def __init__(self, name, collectives=COLLECTIVES, why_not=None):
        self.name = name
        self.collectives = collectives
        self.why_not = why_not

    def command(self, world, collective, sizes, output):
        raise NotImplementedError

    def times(self, text):
        """{bytes: median seconds} from what it has written.

        A size too small to be shared by all ranks, which comes out as 0, is no
        figure.
        """
        return {row["bytes"]: row["median_seconds"]
                for row in json.loads(text)["rows"] if row["bytes"] > 0}

    def run(self, world, collective, sizes):
        with tempfile.TemporaryDirectory() as folder:
            output = os.path.join(folder, "times.json")
            command = self.command(world, collective, sizes, output)
            result = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                timeout=LIMIT_SECONDS)
            if result.returncode != 0:
                sys.exit("compare: %s failed (exit code %d): %s\n%s" % (
                    self.name, result.returncode, " ".join(command),
                    result.stdout.decode(errors="replace")))
            with open(output, encoding="utf-8") as file:
                return self.times(file.read())


class Shoal(Contestant):
    """comm_bench has no list of sizes, but they are a geometric series."""

    def __init__(self, program, name="Shoal", extra=()):
        super().__init__(name)
        self.program = program
        self.extra = list(extra)

    def command(self, world, collective, sizes, output):
        factor = sizes[1] // sizes[0] if len(sizes) > 1 else 2
        return [self.program, "--world=%d" % world,
                "--collective=" + collective, "-n", "auto", "-c", "1",
                "-b", str(sizes[0]), "-e", str(sizes[-1]), "-f", str(factor),
                "--halves=" + ("in_place" if collective in IN_PLACE
                               else "out_of_place"),
                "-J", output] + self.extra

    def times(self, text):
        rows = json.loads(text)["series"][0]["rows"]
        return {row["bytes"]: (row.get("in_place") or row["out_of_place"])[
            "median_seconds"] for row in rows if row["bytes"] > 0}


class Driver(Contestant):
    """One of the programs in this package."""

    def __init__(self, name, program, collectives, prefix=None, **kwargs):
        super().__init__(name, collectives, **kwargs)
        self.program = program
        self.prefix = prefix or (lambda world: [])

    def command(self, world, collective, sizes, output):
        return self.prefix(world) + [
            self.program, "--world=%d" % world, "--collective=" + collective,
            "--sizes=" + ",".join(map(str, sizes)), "--output=" + output]


def mpirun(world):
    return ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n",
            str(world), "--mca", "btl", "tcp,self", "--mca",
            "btl_tcp_if_include", "lo"]


def workspace():
    found = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
    if not found:
        sys.exit("compare: start it by  bazel run //tools/peers:compare")
    return found


def build(target):
    """Builds a driver whose library is there; returns the program's path."""
    subprocess.run(["bazel", "build", "--noshow_progress", "--show_result=0",
                    "//tools/peers:" + target], cwd=workspace(), check=True)
    return os.path.join(workspace(), "bazel-bin", "tools", "peers", target)


def peer(name, target, collectives, needs, prefix=None):
    """A driver, if all of `needs` (files, or programs) are installed."""
    for need in needs:
        if not (os.path.exists(need) if "/" in need else shutil.which(need)):
            return Driver(name, "", collectives,
                          why_not="not installed; " + SETUP)
    return Driver(name, build(target), collectives, prefix)


def contestants(runfiles):
    mpi_headers = ["/usr/include/%s-linux-gnu/mpi/mpi.h" % os.uname().machine]
    return [
        Shoal(os.path.join(runfiles, "tools/comm_bench/comm_bench")),
        peer("Gloo", "gloo", ("all_reduce",), ["/usr/include/gloo/config.h"]),
        peer("OpenMPI", "open_mpi", COLLECTIVES, ["mpirun"] + mpi_headers,
             mpirun),
        Driver("raw sockets", os.path.join(runfiles, "tools/peers/raw_sockets"),
               ("all_reduce", "ping_pong")),
    ]


def algorithms(runfiles, collective):
    program = os.path.join(runfiles, "tools/comm_bench/comm_bench")
    return [Shoal(program)] + [
        Shoal(program, name, ["--algo=" + name])
        for name in ALGORITHMS[collective]]


def race(runners, world, collective, sizes, rounds):
    """{name: [{bytes: seconds} of each round]}; every other round backwards."""
    results = {runner.name: [] for runner in runners}
    for number in range(rounds):
        for runner in runners if number % 2 == 0 else reversed(runners):
            print("# world %d, round %d of %d: %s" % (
                world, number + 1, rounds, runner.name), file=sys.stderr)
            results[runner.name].append(runner.run(world, collective, sizes))
    return results


def table_of(results):
    """Rows of {bytes, seconds: {name: ...}, ratios: {name: (r, low, high)}}."""
    ours = results["Shoal"]
    rows = []
    for size in sorted(ours[0]):
        row = {"bytes": size, "seconds": {}, "ratios": {}}
        for name, rounds in results.items():
            if not all(size in times for times in rounds):
                continue
            series = [times[size] for times in rounds]
            row["seconds"][name] = statistics.median(series)
            if name != "Shoal":
                row["ratios"][name] = paired_ratio(
                    [times[size] for times in ours], series)
        rows.append(row)
    return rows


def size_text(size):
    for unit, shift in (("Mi", 20), ("Ki", 10)):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return "%d %s" % (size >> shift, unit)
    return str(size)


def time_text(seconds):
    us = seconds * 1e6
    return "%.1f" % us if us < 100 else "%.0f" % us


def ratio_text(ratio):
    mean, low, high = ("%.2f" % value if value < 1000 else "> 999"
                       for value in ratio)
    return "%s (%s to %s)" % (mean, low, high)


def markdown(rows, names):
    peers = [name for name in names if name != "Shoal"]
    lines = [["bytes"] + names + ["to " + name for name in peers]]
    for row in rows:
        lines.append([size_text(row["bytes"])] +
                     [time_text(row["seconds"][name])
                      if name in row["seconds"] else "" for name in names] +
                     [ratio_text(row["ratios"][name])
                      if name in row["ratios"] else "" for name in peers])
    widths = [max(len(line[i]) for line in lines)
              for i in range(len(lines[0]))]
    lines.insert(1, ["-" * width for width in widths])
    return "".join("| %s |\n" % " | ".join(
        cell.rjust(width) for cell, width in zip(line, widths))
        for line in lines)


def best_of(row):
    """The fastest peer of a row: (name, its paired ratio); None for none."""
    if not row["ratios"]:
        return None
    name = min(row["ratios"], key=lambda each: row["seconds"][each])
    return name, row["ratios"][name]


def best_table(tables):
    """Markdown of Shoal's time relative to each row's best, by world."""
    lines = ["| bytes | %s |" % " | ".join(
        "%d ranks" % world for world in tables),
             "|---" * (len(tables) + 1) + "|"]
    by_size = {}
    for world, rows in tables.items():
        for row in rows:
            by_size.setdefault(row["bytes"], {})[world] = best_of(row)
    for size, cells in sorted(by_size.items()):
        lines.append("| %s | %s |" % (size_text(size), " | ".join(
            "%s %s" % (cells[world][0], ratio_text(cells[world][1]))
            if cells.get(world) else "" for world in tables)))
    return "\n".join(lines) + "\n"


def medians(tables, name):
    """Of the ratios to `name` over all sizes of `tables`; None for none."""
    ratios = [row["ratios"][name][0] for rows in tables for row in rows
              if name in row["ratios"]]
    return statistics.median(ratios) if ratios else None


def parse_arguments(arguments):
    def numbers(text):
        return [int(part) for part in text.split(",")]

    parser = argparse.ArgumentParser(
        prog="compare", description="Shoal and its peers, interleaved.")
    parser.add_argument("--world", type=numbers, default=[2],
                        help="ranks on this machine, such as 4 or 2,4,8")
    parser.add_argument("--collective", default="all_reduce",
                        choices=COLLECTIVES + ("reduce",))
    parser.add_argument("--algorithms", action="store_true",
                        help="Shoal's own choice against each of its "
                        "algorithms, in place of the peers")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sizes", type=numbers, default=DEFAULT_SIZES,
                        help="bytes, each as many times the one before")
    parser.add_argument("--json", help="a file for all figures")
    flags = parser.parse_args(arguments)
    if min(flags.world) < 2 or flags.rounds < 2 or min(flags.sizes) < 4:
        parser.error("worlds have 2 ranks or more, sizes 4 bytes or more, and "
                     "an interval takes 2 rounds or more")
    if flags.algorithms and flags.collective not in ALGORITHMS:
        parser.error("--algorithms: there is a choice for %s only" %
                     ", ".join(ALGORITHMS))
    if flags.collective == "reduce" and not flags.algorithms:
        parser.error("--collective reduce: no peer has it; add --algorithms")
    factors = {b / a for a, b in zip(flags.sizes, flags.sizes[1:])}
    if len(factors) > 1 or any(f < 2 or f % 1 for f in factors):
        parser.error("--sizes: each has to be the same whole number of times "
                     "the one before")
    return flags


def report(tables, collective, rounds, names):
    for world, rows in tables.items():
        print("\n%s, f32%s, %d ranks, %d rounds: median time in us; Shoal's "
              "time to the peer's (95 %% interval)\n" % (
                  collective, ", in place" if collective in IN_PLACE else "",
                  world, rounds))
        print(markdown(rows, [name for name in names if any(
            name in row["seconds"] for row in rows)]), end="")
    print()
    for name in names:
        median = medians(tables.values(), name)
        if median is not None:
            print("Median ratio to %s over all sizes%s: %.2f" % (
                name, " and worlds" if len(tables) > 1 else "", median))


def main(arguments):
    flags = parse_arguments(arguments)
    # `bazel run` starts this in the runfiles.
    if flags.algorithms:
        runners = algorithms(os.getcwd(), flags.collective)
    else:
        runners = [each for each in contestants(os.getcwd())
                   if flags.collective in each.collectives]
    for runner in runners:
        if runner.why_not:
            print("%s: skipped, %s" % (runner.name, runner.why_not))
    runners = [runner for runner in runners if not runner.why_not]
    names = [runner.name for runner in runners]
    tables = {}
    document = {"collective": flags.collective, "rounds": flags.rounds,
                "worlds": []}
    for world in flags.world:
        results = race(runners, world, flags.collective, flags.sizes,
                       flags.rounds)
        tables[world] = table_of(results)
        document["worlds"].append(
            {"world_size": world, "rows": tables[world],
             "rounds": {name: [sorted(times.items()) for times in rounds]
                        for name, rounds in results.items()}})
    report(tables, flags.collective, flags.rounds, names)
    if flags.algorithms:
        print("\nThe best algorithm, and the time of Shoal's choice to its\n")
        print(best_table(tables), end="")
    if flags.json:
        path = os.path.join(os.environ.get("BUILD_WORKING_DIRECTORY", ""),
                            flags.json)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1:])
