"""The members hand over to each other, until one of them answers without handing over."""

from __future__ import annotations

from libs.contracts.groups.group_runs import ToolAnswer
from services.groups.domain.conversations.group_conversation_state import Hop
from services.groups.domain.managers.decisions import (
    Decision,
    Participant,
    Pick,
    Table,
    Wait,
    ask,
    end_of,
)
from services.groups.domain.managers.member_tools import read_hand_over


def swarm(table: Table) -> Decision:
    """Ask the member that has the floor; within the hop limit of the group the floor goes where it
    is handed. A name that is no member's is answered once, then the next in rotation goes on."""
    if table.is_waiting:
        return Wait()
    picked = next((each for each in table.present if each.agent_id == table.picked), None)
    if picked is not None:
        return ask(picked)
    last = table.hops[-1] if table.hops else None
    if last is None or last.status == "skipped":
        return first_speaker(table)
    if not last.calls:
        return end_of([last])
    if len(table.answers) >= hops_max(table):
        return end_of(table.answers, "max_steps")
    speaker = handed_to(table, last)
    if speaker is not None and speaker.agent_id != last.agent_id:
        return Pick(speaker.agent_id, "member")
    before = table.hops[-2] if len(table.hops) > 1 else None
    caller = next((each for each in table.present if each.agent_id == last.agent_id), None)
    if caller is not None and (before is None or before.agent_id != last.agent_id):
        return ask(caller, answers=tuple(no_such_member(table, last)))
    fallback = table.next_in_rotation()
    if fallback is None or fallback.agent_id == last.agent_id:
        return end_of([last])
    return Pick(fallback.agent_id, "rotation")


def hops_max(table: Table) -> int:
    """How many members may answer for one message."""
    most = table.config.hop_limit
    return min(table.config.max_turns or most, most)


def first_speaker(table: Table) -> Decision:
    """The member that had the floor at last, or the first of the group."""
    present = table.present
    if not present:
        return end_of(list(table.hops))
    return ask(next((each for each in present if each.agent_id == table.floor), present[0]))


def handed_to(table: Table, hop: Hop) -> Participant | None:
    """The member that a hop handed over to, by the first of its calls that names one."""
    for call in hop.calls:
        wanted = read_hand_over(call)
        member = table.member_named(wanted.agent_name) if wanted else None
        if member is not None:
            return member
    return None


def no_such_member(table: Table, hop: Hop) -> list[ToolAnswer]:
    """What a member is told that handed over to nobody."""
    names = ", ".join(each.name for each in table.present if each.agent_id != hop.agent_id)
    told = f"There is no other member of that name. The others are: {names or 'none'}."
    return [ToolAnswer(tool_call_id=call.id, content=told) for call in hop.calls]
