"""All members answer the same message at the same time."""

from __future__ import annotations

from services.groups.domain.managers.decisions import (
    HOPS_AT_ONCE_MAX,
    Ask,
    Decision,
    Table,
    Wait,
    WantedHop,
    end_of,
)


def broadcast(table: Table) -> Decision:
    """Ask all members, so many at once; what one of them cannot answer keeps no other from it."""
    asked = {hop.agent_id for hop in table.hops}
    left = [member for member in table.members if member.agent_id not in asked]
    room = HOPS_AT_ONCE_MAX - sum(hop.is_open for hop in table.hops)
    if left and room > 0:
        wanted = [WantedHop(agent_id=member.agent_id, together=True) for member in left[:room]]
        return Ask(tuple(wanted))
    return Wait() if table.is_waiting else end_of(list(table.hops))
