"""Agents as tools are shown them, in memory."""

from __future__ import annotations

from libs.contracts.bus_messages import JsonObject


class NoAgents:
    """Keeps the contract of `AgentQueries`: nobody is there."""

    async def agent_state(self, org: str, agent_id: str, block_ids: list[str]) -> JsonObject | None:
        return None
