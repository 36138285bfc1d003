"""Runs mutants, one line each. Exit 1 if one survives, or if a test fails without a mutant.

python -m tests.mutants                             all of them, or those that are named
python -m tests.mutants --sample 100 --seed 7       100 chosen at random; the seed is printed
python -m tests.mutants --jobs 1 --skip-baseline    one at a time, without first running the tests on sound code
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants import LIMIT, Mutant, Verdict, copy_of_source, exists, judge, load, run_tests


def options(args: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Runs mutants.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants to run (default: all)")
    parser.add_argument("--sample", type=int, metavar="N", help="run N of them, chosen at random")
    parser.add_argument("--seed", type=int, metavar="S", help="choose the same sample again")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="how many run at a time (default: 2)")
    parser.add_argument("--skip-baseline", action="store_true", help="do not run the tests without a mutant first")
    return parser.parse_args(args)


def choose(mutants: list[Mutant], count: int | None, seed: int | None) -> list[Mutant]:
    """A random sample in the order of the names, or all of them."""
    if count is None or count >= len(mutants):
        return mutants
    if seed is None:
        seed = random.randrange(1_000_000)
    print(f"{count} of {len(mutants)} mutants, --seed {seed}", flush=True)
    return sorted(random.Random(seed).sample(mutants, count))


def main() -> int:
    given = options(sys.argv[1:])
    mutants = choose(load(given.names), given.sample, given.seed)
    if not mutants:
        print("no mutant has that name")
        return 2
    with tempfile.TemporaryDirectory(prefix="clew-mutants-") as made:
        base = Path(made)
        sound = base / "sound"
        sound.mkdir()
        copy_of_source(sound, [])
        tests = sorted({test for mutant in mutants for test in mutant.tests if exists(test)})
        code, said = (0, "") if given.skip_baseline else run_tests(sound, tests, LIMIT + 20 * len(tests))
        if code:
            print(said[-3000:])
            print("the tests fail without a mutant: fix them first")
            return 1

        def one(mutant: Mutant) -> tuple[Mutant, Verdict, float]:
            began = time.monotonic()
            (base / mutant.name).mkdir()
            return mutant, judge(mutant, base / mutant.name), time.monotonic() - began

        survivors = 0
        with ThreadPoolExecutor(given.jobs) as pool:
            for mutant, verdict, took in pool.map(one, mutants):
                print(f"{verdict.word:<9} {mutant.name:<28} {took:5.1f} s  {mutant.why}", flush=True)
                if not verdict.caught:
                    survivors += 1
                    print("    " + "\n    ".join(verdict.said.strip().splitlines()[-6:]))
    print(f"{len(mutants) - survivors} caught, {survivors} not")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
