"""The members speak one after the other, in the order of the group."""

from __future__ import annotations

from services.groups.domain.managers.decisions import (
    Decision,
    Participant,
    Table,
    Wait,
    ask,
    end_of,
)


def round_robin(table: Table) -> Decision:
    """Ask the next member: each of them once, or until `max_turns` answers are there."""
    if table.is_waiting:
        return Wait()
    speaker = next_speaker(table)
    return ask(speaker) if speaker else end_of(list(table.hops))


def next_speaker(table: Table) -> Participant | None:
    """The member whose turn it is; None once as many have answered as may. Also one that joins
    while the others answer is asked once."""
    if table.config.max_turns is not None:
        return None if len(table.answers) >= answers_max(table) else table.next_in_rotation()
    asked = {hop.agent_id for hop in table.hops}
    return next((member for member in table.members if member.agent_id not in asked), None)


def answers_max(table: Table) -> int:
    """How many answers a message gets: one of each member, or `max_turns`, within the hop limit of
    the group where that is more than one round."""
    everybody = len(table.present)
    return min(table.config.max_turns or everybody, max(table.config.hop_limit, everybody))
