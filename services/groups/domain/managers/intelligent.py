"""A model picks the one member that fits a message best."""

from __future__ import annotations

from services.groups.domain.managers.decisions import (
    AskModel,
    Decision,
    GroupFacts,
    SelectSpeaker,
    Wait,
    ask,
    end_of,
)


def intelligent(facts: GroupFacts) -> Decision:
    """Have a model pick a member and ask that one; the next in rotation where it is gone."""
    if facts.is_waiting:
        return Wait()
    if (speaker := facts.speaker) is not None:
        return ask(speaker)
    if facts.answers or not facts.present:
        return end_of(list(facts.hops))
    if len(facts.present) == 1:
        return SelectSpeaker(facts.present[0].agent_id, "rotation")
    fallback = facts.next_in_rotation()
    if facts.hops and fallback is not None:
        return SelectSpeaker(fallback.agent_id, "rotation")
    return AskModel()
