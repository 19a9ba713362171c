"""`make mutants`: which share of small changes in the rules and engines the tests notice.

Ends with 1 if it is less than `--found` percent. The tests are those that need no server; others
may be named after `--`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time

import pytest

TESTS = ("--quick", "tests/sim", "tests/contract", "tests/unit")
NOT_OF_THE_SERVER = (
    *("scripted_model", "benchmarks", "chaos", "slow_text", "architecture", "compatibility"),
    *("launcher", "doctor", "deploy"),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--changes", type=int, default=200, help="how many are tried")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument("--under", default="", help="only below this folder, as services/groups")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--found", type=float, default=0.0, help="percent that must be found")
    parser.add_argument("tests", nargs="*", help="what pytest is asked to run")
    asked = parser.parse_args()
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = tempfile.mkdtemp(prefix="mutants-")
    from tests.mutants.changes import all_changes, shuffled
    from tests.mutants.trials import NOT_EXECUTED, Trials

    ignored = [f"--ignore=tests/unit/{name}" for name in NOT_OF_THE_SERVER]
    trials = Trials(shuffled(all_changes(asked.under), asked.seed), asked.changes, asked.jobs)
    began = time.monotonic()
    options = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--capture=no"]
    pytest.main(
        [*options, "--hypothesis-seed=0", *(asked.tests or [*TESTS, *ignored])], plugins=[trials]
    )
    found = sum(trial.is_found for trial in trials.ended)
    share = 100 * found / max(1, len(trials.ended))
    print("\nNot found:")
    for trial in trials.ended:
        if not trial.is_found:
            print(f"  {trial.change}  [{trial.end}]")
    executed = sum(trial.end != NOT_EXECUTED for trial in trials.ended)
    print(
        f"{found} of {len(trials.ended)} changes found ({share:.1f} %), {executed} executed by"
        f" tests, seed {asked.seed}, {time.monotonic() - began:.0f} s"
    )
    return 0 if share >= asked.found else 1


if __name__ == "__main__":
    sys.exit(main())
