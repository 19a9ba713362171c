"""R30: bad MCP servers end their own calls in time, and nobody else's; nothing of them is left."""

from __future__ import annotations

from tests.chaos.conftest import Proves


async def test_r30_bad_mcp_servers_cost_nobody_else_anything(proves: Proves) -> None:
    verdict = await proves("R30")

    assert verdict.kills >= 1
