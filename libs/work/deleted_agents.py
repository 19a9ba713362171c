"""Which agents were deleted: a source for statements that look for what they left behind."""

from __future__ import annotations

from collections.abc import Sequence

ALL = "agent.deleted_agent_view d"
CHOSEN = (
    "unnest(%(agents)s::text[]) as chosen(id) cross join lateral"
    " (select id, org from agent.deleted_agent_view where id = chosen.id limit 1) d"
)


def deleted_agents(agent_ids: Sequence[str] | None) -> str:
    """The source `d` with `id` and `org`: those of the parameter `agents` that were deleted; of all
    agents those that were, where nobody is named. That reads every deletion that ever was."""
    return ALL if agent_ids is None else CHOSEN
