"""All members answer the same message at the same time."""

from __future__ import annotations

from services.groups.domain.managers.decisions import (
    MEMBER_RUNS_AT_ONCE_MAX,
    Ask,
    Decision,
    GroupFacts,
    Wait,
    WantedMemberRun,
    end_of,
)


def broadcast(facts: GroupFacts) -> Decision:
    """Ask all members, so many at once; what one of them cannot answer keeps no other from it."""
    asked = {hop.agent_id for hop in facts.hops}
    left = [member for member in facts.members if member.agent_id not in asked]
    room = MEMBER_RUNS_AT_ONCE_MAX - sum(hop.is_open for hop in facts.hops)
    if left and room > 0:
        wanted = [
            WantedMemberRun(agent_id=member.agent_id, together=True) for member in left[:room]
        ]
        return Ask(tuple(wanted))
    return Wait() if facts.is_waiting else end_of(list(facts.hops))
