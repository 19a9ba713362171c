"""Recorded exchanges with a genuine server have the same shape here, or it is said why not."""

from __future__ import annotations

import httpx

from deploy.compatibility import read_exchanges
from tests.e2e.replay import Replay, names


def test_recorded_exchanges_have_the_same_shape_or_their_difference_is_said(
    http: httpx.Client,
) -> None:
    replay = Replay(http)
    found = {name: replay.differences(name) for name in names()}
    differing = {name: what for name, what in found.items() if what}
    said = {name for exchange in read_exchanges() for name in exchange.names}
    assert differing.keys() == said, differing
