"""The manager asks the members with a tool, and answers."""

from __future__ import annotations

from libs.contracts.groups.group_runs import ToolAnswer, ToolCallMade
from services.groups.domain.conversations.group_conversation_state import MemberRun
from services.groups.domain.managers.decisions import (
    MEMBER_RUNS_AT_ONCE_MAX,
    MISSING_MANAGER,
    Ask,
    Decision,
    GroupFacts,
    Participant,
    Wait,
    WantedMemberRun,
    ask,
    end_of,
)
from services.groups.domain.managers.member_tools import read_ask
from services.groups.domain.managers.swarm import hops_max

NOBODY = "You named nobody that is a member of the group"


def supervisor(facts: GroupFacts) -> Decision:
    """Ask the manager, then the members that it asks, then the manager again with their answers,
    until it answers without asking or has asked as often as the limit of member runs lets it."""
    manager = facts.manager
    asks = [hop for hop in facts.hops if hop.purpose == "answer"]
    if not asks:
        if manager is None:
            return MISSING_MANAGER
        return ask(manager)
    last = asks[-1]
    if last.is_open:
        return Wait()
    if not last.calls or manager is None:
        return end_of([last])
    if len(asks) >= hops_max(facts):
        return end_of([last], "max_steps")
    asked = [hop for hop in facts.hops if hop.asked_in == last.hop]
    left = members_to_ask(facts, last, asked)
    room = MEMBER_RUNS_AT_ONCE_MAX - sum(hop.is_open for hop in asked)
    if left and room > 0:
        return Ask(
            tuple(
                WantedMemberRun(
                    agent_id=member.agent_id, purpose="ask", asked_in=last.hop, together=True
                )
                for member in left[:room]
            )
        )
    if any(hop.is_open for hop in asked):
        return Wait()
    answers = tuple(answer_of(facts, call, asked) for call in last.calls)
    return ask(manager, answers=answers, answers_say_all=True)


def members_to_ask(facts: GroupFacts, hop: MemberRun, asked: list[MemberRun]) -> list[Participant]:
    """The members that the manager asked in a member run and that were not asked yet."""
    known = {each.agent_id for each in asked}
    wanted = [member for call in hop.calls for member in named_in(facts, call)]
    unique = {member.agent_id: member for member in wanted}
    return [member for member in unique.values() if member.agent_id not in known]


def named_in(facts: GroupFacts, call: ToolCallMade) -> list[Participant]:
    """The members that a call asks."""
    arguments = read_ask(call)
    if arguments is None:
        return []
    if not arguments.agent_names:
        return list(facts.members)
    named = [facts.member_named(name) for name in arguments.agent_names]
    return [member for member in named if member is not None]


def answer_of(facts: GroupFacts, call: ToolCallMade, asked: list[MemberRun]) -> ToolAnswer:
    """What a manager is told about a call: the answer of each member that it asked."""
    named = {member.agent_id for member in named_in(facts, call)}
    lines = [
        f"[{hop.name}]: {hop.text if hop.status == 'completed' else f'<error: {hop.reason}>'}"
        for hop in asked
        if hop.agent_id in named or hop.status == "skipped"
    ]
    names = ", ".join(member.name for member in facts.members)
    content = "\n".join(lines) or f"{NOBODY}. The members are: {names or 'none'}."
    return ToolAnswer(tool_call_id=call.id, content=content)
