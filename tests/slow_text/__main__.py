"""`python -m tests.slow_text`: every field and every form of a file, with every filling."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tests.slow_text.files import slow_files
from tests.slow_text.fillings import FILLINGS
from tests.slow_text.found import SECONDS_MAX, tried


def main() -> int:
    """1 if a request takes too much of the processor."""
    parser = argparse.ArgumentParser(prog="python -m tests.slow_text", description=__doc__)
    parser.add_argument("--fillings", type=int, default=len(FILLINGS), help="of each field")
    parser.add_argument("--path", default="", help="only operations whose path has this in it")
    parser.add_argument("--slowest", type=int, default=20, help="how many are shown")
    asked = parser.parse_args()
    found = list(tried(asked.fillings, asked.path))
    for each in sorted(found, key=lambda each: -each.seconds)[: asked.slowest]:
        print(each)
    print(f"{len(found)} requests: {dict(Counter(each.status for each in found))}")
    files = [] if asked.path else slow_files(1, SECONDS_MAX)
    print("\n".join([*files, f"{len(files)} forms of files take too long"]))
    return int(bool(files) or any(each.seconds > SECONDS_MAX for each in found))


if __name__ == "__main__":
    sys.exit(main())
