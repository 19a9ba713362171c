"""R39: 20 clients on blocks and conversations, under kills (R01) and partitions (R15)."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_r39_what_clients_see_is_linearizable(network_proves: Proves) -> None:
    verdict = await network_proves("R39")

    assert verdict.figures["histories"] >= 10
