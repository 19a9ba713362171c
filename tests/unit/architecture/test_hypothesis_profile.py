"""No test fails because the machine is busy with something else."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.agent import test_conversation_histories as histories


@given(st.integers())
def of_values(_: int) -> None:
    """A test of Hypothesis like any other."""


def test_values_may_take_any_time_to_be_made_and_tried() -> None:
    inner = of_values._hypothesis_internal_use_settings  # type: ignore[attr-defined]
    for found in (settings(), inner, histories.TestHistories.settings):
        assert found.deadline is None
        assert HealthCheck.too_slow in found.suppress_health_check
