"""Runs of agents with tool rules."""

from __future__ import annotations

from typing import Any

from tests.unit.agent.world import World


def rule(kind: str, tool: str = "a", **fields: Any) -> dict[str, Any]:
    return {"type": kind, "tool_name": tool, **fields}


def stop_reason(world: World) -> str:
    return str(world.row("runs", "run-1")["stop_reason"])
