"""The manager picks who speaks next, one after the other."""

from __future__ import annotations

from libs.contracts.groups.groups import TERMINATION_TOKEN_DEFAULT
from services.groups.domain.conversations.group_conversation_state import MemberRun
from services.groups.domain.managers.decisions import (
    Decision,
    End,
    GroupFacts,
    SelectSpeaker,
    Wait,
    ask,
    end_of,
)
from services.groups.domain.managers.member_names import without_thoughts
from services.groups.domain.managers.round_robin import answers_max


def dynamic(facts: GroupFacts) -> Decision:
    """Ask the member that the manager picked, or the manager for the next one; the run ends with
    the termination token, from either, and after `max_turns` answers."""
    if facts.is_waiting:
        return Wait()
    if (speaker := facts.speaker) is not None:
        return ask(speaker)
    last = facts.hops[-1] if facts.hops else None
    answers = facts.answers
    if last is not None and last.status == "completed" and ends(facts, last):
        return End() if last.purpose == "pick" and not answers else end_of(answers)
    if len(answers) >= answers_max(facts) or not facts.present:
        return end_of(answers or list(facts.hops))
    if last is None or last.purpose != "pick":
        return picking(facts)
    speaker = facts.member_named_in(last.text)
    if speaker is not None:
        return SelectSpeaker(speaker.agent_id, "manager")
    before = facts.hops[-2] if len(facts.hops) > 1 else None
    if last.status == "completed" and (before is None or before.purpose != "pick"):
        return picking(facts, not_a_member(facts, without_thoughts(last.text).strip()))
    return by_rotation(facts)


def token_of(facts: GroupFacts) -> str:
    """The words that end a run."""
    return facts.config.termination_token or TERMINATION_TOKEN_DEFAULT


def ends(facts: GroupFacts, hop: MemberRun) -> bool:
    """Whether somebody said that the conversation is over."""
    said = without_thoughts(hop.text)
    return token_of(facts) in said or token_of(facts) in said.replace("\\_", "_")


def picking(facts: GroupFacts, first: str = "") -> Decision:
    """Ask the manager who speaks next; by rotation where it is gone."""
    manager = facts.manager
    gone = {hop.agent_id for hop in facts.hops if hop.status == "skipped"}
    if manager is None or manager.agent_id in gone:
        return by_rotation(facts)
    names = ", ".join(member.name for member in facts.present)
    question = (
        f"{first}Who speaks next? Answer with the name of one of these participants and nothing"
        f" else: {names}. Answer {token_of(facts)} if the conversation is over."
    )
    return ask(manager, purpose="pick", question=question)


def not_a_member(facts: GroupFacts, text: str) -> str:
    """What a manager is told whose pick names no member."""
    return f"There is no participant of the name that you gave ({text[:80]!r}). "


def by_rotation(facts: GroupFacts) -> Decision:
    """The next member in the order of the group."""
    speaker = facts.next_in_rotation()
    return SelectSpeaker(speaker.agent_id, "rotation") if speaker else end_of(list(facts.hops))
