"""Each named point of the code at which a process can be killed is one at which a test kills it."""

from __future__ import annotations

import re
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]
REACHED = re.compile(r"failpoints\.reach(?:_with)?\(\s*f?\"([^\"{]+)")
# Points of every commit, command and kind of work: tests name some of each.
OF_ALL_KINDS = {"before_commit.", "after_commit.", "command.", "work."}


def test_every_named_point_is_one_at_which_a_test_kills_the_process() -> None:
    modules = [*CHECKOUT.glob("services/**/*.py"), *CHECKOUT.glob("libs/**/*.py")]
    points = {point for module in modules for point in REACHED.findall(module.read_text())}
    assert points > OF_ALL_KINDS
    tests = "".join(
        path.read_text()
        for folder in ("chaos", "sim", "e2e")
        for path in (CHECKOUT / "tests" / folder).glob("*.py")
    )
    assert [point for point in sorted(points) if not re.search(rf'["\'.]{point}', tests)] == []
