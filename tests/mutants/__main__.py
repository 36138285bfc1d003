"""Runs the mutants, two at a time; one line each. Exit 1 if one survives, or if a test fails without a mutant."""

from __future__ import annotations

import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants import LIMIT, Mutant, Verdict, copy_of_source, exists, judge, load, run_tests


def main() -> int:
    mutants = load(sys.argv[1:])
    if not mutants:
        print("there is no such mutant")
        return 2
    with tempfile.TemporaryDirectory(prefix="clew-mutants-") as made:
        base = Path(made)
        sound = base / "sound"
        sound.mkdir()
        copy_of_source(sound, [])
        tests = sorted({test for mutant in mutants for test in mutant.tests if exists(test)})
        code, said = run_tests(sound, tests, LIMIT + 20 * len(tests))
        if code:
            print(said[-3000:])
            print("the tests fail without a mutant: mend them first")
            return 1

        def one(mutant: Mutant) -> tuple[Mutant, Verdict, float]:
            began = time.monotonic()
            (base / mutant.name).mkdir()
            return mutant, judge(mutant, base / mutant.name), time.monotonic() - began

        survivors = 0
        with ThreadPoolExecutor(2) as pool:
            for mutant, verdict, took in pool.map(one, mutants):
                print(f"{verdict.word:<9} {mutant.name:<28} {took:5.1f} s  {mutant.why}", flush=True)
                if not verdict.caught:
                    survivors += 1
                    print("    " + "\n    ".join(verdict.said.strip().splitlines()[-6:]))
    print(f"{len(mutants) - survivors} caught, {survivors} not")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
