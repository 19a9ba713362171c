"""R41 in the groups service: answers with bids are read once."""

from __future__ import annotations

import pytest

from services.groups.domain.routing.contract_net import parsed_bid
from tests.processor_bounds import processor_time


@pytest.mark.parametrize("filling", ["BID", "BID ", " ", "BID: ", "BID:1", "1", "=", "-"])
def test_a_bid_of_the_greatest_length_is_read_once(filling: str) -> None:
    with processor_time():
        parsed_bid("BID" + filling * (1_000_000 // len(filling)))


def test_white_space_stands_around_a_bid_as_before() -> None:
    assert [parsed_bid(text) for text in ("BID : 7", "bid=7", "BID 7", "BID\n:\n7.5")] == [
        *(7.0, 7.0, 7.0, 7.5)
    ]
