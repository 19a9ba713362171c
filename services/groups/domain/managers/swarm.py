"""The members hand over to each other, until one of them answers without handing over."""

from __future__ import annotations

from libs.contracts.groups.group_runs import ToolAnswer
from services.groups.domain.conversations.group_conversation_state import MemberRun
from services.groups.domain.managers.decisions import (
    Decision,
    GroupFacts,
    Participant,
    SelectSpeaker,
    Wait,
    ask,
    end_of,
)
from services.groups.domain.managers.member_tools import read_hand_over


def swarm(facts: GroupFacts) -> Decision:
    """Ask the member that spoke last; within the limit of member runs of the group the next speaker
    is whom it is handed. A name that is no member's is answered once, then the next in rotation
    goes on."""
    if facts.is_waiting:
        return Wait()
    if (speaker := facts.speaker) is not None:
        return ask(speaker)
    last = facts.hops[-1] if facts.hops else None
    if last is None or last.status == "skipped":
        return first_speaker(facts)
    if not last.calls:
        return end_of([last])
    if len(facts.answers) >= hops_max(facts):
        return end_of(facts.answers, "max_steps")
    speaker = handed_to(facts, last)
    if speaker is not None and speaker.agent_id != last.agent_id:
        return SelectSpeaker(speaker.agent_id, "member")
    before = facts.hops[-2] if len(facts.hops) > 1 else None
    caller = next((each for each in facts.present if each.agent_id == last.agent_id), None)
    if caller is not None and (before is None or before.agent_id != last.agent_id):
        return ask(caller, answers=tuple(no_such_member(facts, last)))
    fallback = facts.next_in_rotation()
    if fallback is None or fallback.agent_id == last.agent_id:
        return end_of([last])
    return SelectSpeaker(fallback.agent_id, "rotation")


def hops_max(facts: GroupFacts) -> int:
    """How many members may answer for one message."""
    most = facts.config.hop_limit
    return min(facts.config.max_turns or most, most)


def first_speaker(facts: GroupFacts) -> Decision:
    """The member that spoke last, or the first of the group."""
    present = facts.present
    if not present:
        return end_of(list(facts.hops))
    return ask(next((each for each in present if each.agent_id == facts.last_speaker), present[0]))


def handed_to(facts: GroupFacts, hop: MemberRun) -> Participant | None:
    """The member that a member run handed over to, by the first of its calls that names one."""
    for call in hop.calls:
        wanted = read_hand_over(call)
        member = facts.member_named(wanted.agent_name) if wanted else None
        if member is not None:
            return member
    return None


def no_such_member(facts: GroupFacts, hop: MemberRun) -> list[ToolAnswer]:
    """What a member is told that handed over to nobody."""
    names = ", ".join(each.name for each in facts.present if each.agent_id != hop.agent_id)
    content = f"There is no other member of that name. The others are: {names or 'none'}."
    return [ToolAnswer(tool_call_id=call.id, content=content) for call in hop.calls]
