"""Single requests that once stopped a server for everybody take less than half a second."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.processor_time import processor_seconds
from tests.unit.slow_text.named_cases import CASES, LARGE_CASES

SECONDS_MAX = 0.5
LARGE_SECONDS_MAX = 5.0


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_request_that_once_held_the_processor_does_not(case: Callable[[], None]) -> None:
    assert processor_seconds(case) <= SECONDS_MAX


@pytest.mark.parametrize("case", LARGE_CASES, ids=lambda case: case.__name__)
def test_a_large_file_takes_no_longer_than_its_size_says(case: Callable[[], None]) -> None:
    assert processor_seconds(case) <= LARGE_SECONDS_MAX
