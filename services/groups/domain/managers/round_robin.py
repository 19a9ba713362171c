"""The members speak one after the other, in the order of the group."""

from __future__ import annotations

from services.groups.domain.managers.decisions import (
    Decision,
    GroupFacts,
    Participant,
    Wait,
    ask,
    end_of,
)


def round_robin(facts: GroupFacts) -> Decision:
    """Ask the next member: each of them once, or until `max_turns` answers are there."""
    if facts.is_waiting:
        return Wait()
    speaker = next_speaker(facts)
    return ask(speaker) if speaker else end_of(list(facts.hops))


def next_speaker(facts: GroupFacts) -> Participant | None:
    """The member whose turn it is; None once as many have answered as may. Also one that joins
    while the others answer is asked once."""
    if facts.config.max_turns is not None:
        return None if len(facts.answers) >= answers_max(facts) else facts.next_in_rotation()
    asked = {hop.agent_id for hop in facts.hops}
    return next((member for member in facts.members if member.agent_id not in asked), None)


def answers_max(facts: GroupFacts) -> int:
    """How many answers a message gets: one of each member, or `max_turns`, within the limit of
    member runs of the group where that is more than one round."""
    everybody = len(facts.present)
    return min(facts.config.max_turns or everybody, max(facts.config.hop_limit, everybody))
