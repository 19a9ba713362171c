"""The way back to the configuration that an agent had before."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from libs.contracts.bus_messages import NOT_FOUND, Rejected
from services.agent.domain.agents.agent import Agent, AgentDesign
from services.agent.domain.tools.custom_tools import CustomTool, held_tools

# What says when and by whom an agent was changed, and what another aggregate goes with.
NOT_RESTORED = ("id", "created_at", "created_by_id", "enable_sleeptime")
STAMPS = {"updated_at", "last_updated_by_id"}


def restore_configuration(
    agent: Agent,
    past: AgentDesign,
    custom: Sequence[CustomTool],
    *,
    actor: str,
    version: int,
    at: datetime,
) -> None:
    """Record the configuration, tools and tags of an earlier version; nothing where they are these
    already. `custom` are the tools of that version that clients made and that are there still:
    deleted ones stay away."""
    now = agent.design
    assert now is not None, "only an agent that exists is changed"
    kept = {name: getattr(now.config, name) for name in NOT_RESTORED}
    stamps = {"updated_at": at, "last_updated_by_id": actor}
    config = past.config.model_copy(update={**kept, **stamps})
    there = {tool.id for tool in held_tools(past.tool_ids, custom)}
    # Under the names that it got them by: rules know them by these.
    recorded = zip(past.tool_ids, past.tools, strict=True)
    kept_tools = [(tool_id, name) for tool_id, name in recorded if tool_id in there]
    design = now.model_copy(
        update={
            "config": config,
            "tools": [name for _, name in kept_tools],
            "tool_ids": [tool_id for tool_id, _ in kept_tools],
            "tags": past.tags,
        }
    )
    changed = changed_names(now, design)
    if changed:
        agent.update(changed, design, at=at, restored_from=f"{agent.id}.{version}")


def changed_names(before: AgentDesign, after: AgentDesign) -> list[str]:
    """The names of the fields in which two designs differ."""
    old, new = before.config.model_dump(), after.config.model_dump()
    fields = {name for name in new if name not in STAMPS and old[name] != new[name]}
    parts = {name for name in ("tool_ids", "tags") if getattr(before, name) != getattr(after, name)}
    return sorted(fields | parts)


def no_version(agent_id: str, version: int) -> Rejected:
    """The refusal of a version that the agent never had."""
    return Rejected(code=NOT_FOUND, reason=f"Agent '{agent_id}' has no version {version}")
