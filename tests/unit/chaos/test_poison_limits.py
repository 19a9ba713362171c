"""R27 fails if those who are not poisoned wait too long."""

from __future__ import annotations

import pytest

from tests.chaos import oracle
from tests.chaos.oracle import Verdict
from tests.chaos.poison import check_others


@pytest.fixture(autouse=True)
def _time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle, "overloaded", lambda: False)


@pytest.mark.parametrize(
    ("seconds", "found"),
    [
        ([0.05] * 99 + [7.0], []),
        ([0.05] * 97 + [46.0] * 3, ["p99"]),
        ([1.5] * 100, ["p50"]),
        ([47.0] * 100, ["p50", "p99"]),
    ],
)
def test_r27_fails_when_the_others_wait_too_long(seconds: list[float], found: list[str]) -> None:
    verdict = Verdict("R27")
    check_others(seconds, 2.0, verdict)
    assert verdict.passed == (not found)
    assert [text.split()[1] for text in verdict.wrong] == found


def test_r27_has_a_limit_however_long_an_attempt_takes() -> None:
    verdict = Verdict("R27")
    check_others([0.05] * 97 + [31.0] * 3, 100.0, verdict)
    assert not verdict.passed


def test_nothing_is_said_of_speed_where_the_machine_is_overloaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(oracle, "overloaded", lambda: True)
    verdict = Verdict("R27")
    check_others([47.0] * 100, 2.0, verdict)
    assert verdict.passed
