"""Clocks that are read over a network, whose times are known within bounds."""

from __future__ import annotations

import pytest

from deploy.doctor.clocks import ahead


@pytest.mark.parametrize(
    ("ours", "theirs", "seconds"),
    [
        ((100.0, 100.1), (100.0, 101.0), 0.0),
        ((100.0, 109.0), (105.0, 105.0), 0.0),  # the answer took its time
        ((100.0, 100.1), (90.0, 91.0), 9.0),
        ((100.0, 100.0), (110.0, 111.0), -10.0),
    ],
)
def test_a_clock_is_wrong_only_where_no_delay_explains_it(
    ours: tuple[float, float], theirs: tuple[float, float], seconds: float
) -> None:
    assert ahead(ours, theirs) == seconds
