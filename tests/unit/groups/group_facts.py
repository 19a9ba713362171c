"""Tables of runs of groups, as the types of managers see them."""

from __future__ import annotations

import json
from typing import Any

from libs.contracts.groups.group_runs import ToolCallMade
from libs.contracts.groups.groups import GroupConfig
from services.groups.domain.conversations.group_conversation_state import MemberRun
from services.groups.domain.managers.decisions import GroupFacts, Participant

ALICE, BOB, CAROL = (
    Participant(f"agent-{name.lower()}", name, f"{name} does things", (name.lower(),))
    for name in ("Alice", "Bob", "Carol")
)
MANAGER = Participant("agent-manager", "Manager")


def hop_of(who: Participant, number: int, **fields: Any) -> MemberRun:
    """A hop that has ended well, unless the fields say otherwise."""
    return MemberRun.model_validate(
        {
            "hop": number,
            "agent_id": who.agent_id,
            "name": who.name,
            "run_id": f"run-{number}",
            "conversation_id": f"conv-{who.agent_id}",
            "since": 0,
            "up_to": 1,
            "status": "completed",
            "texts": ["Something."],
            **fields,
        }
    )


def call_of(tool: str, **arguments: Any) -> ToolCallMade:
    """A call of a tool of the group."""
    return ToolCallMade(id=f"call-{tool}", name=tool, arguments=json.dumps(arguments))


def facts_of(manager_type: str, *hops: MemberRun, **fields: Any) -> GroupFacts:
    """A group of Alice, Bob and Carol, in which these hops were made."""
    config = GroupConfig.model_validate(
        {
            "agent_ids": [each.agent_id for each in (ALICE, BOB, CAROL)],
            "manager_type": manager_type,
            "manager_agent_id": MANAGER.agent_id,
            **fields.pop("config", {}),
        }
    )
    known: dict[str, Any] = {
        "config": config,
        "members": (ALICE, BOB, CAROL),
        "manager": MANAGER,
        "hops": hops,
    }
    return GroupFacts(**{**known, **fields})
