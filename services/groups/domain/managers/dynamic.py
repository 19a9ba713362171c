"""The manager picks who speaks next, one after the other."""

from __future__ import annotations

from libs.contracts.groups.groups import TERMINATION_TOKEN_DEFAULT
from services.groups.domain.conversations.group_conversation_state import Hop
from services.groups.domain.managers.decisions import (
    Decision,
    End,
    Pick,
    Table,
    Wait,
    ask,
    end_of,
)
from services.groups.domain.managers.member_names import without_thoughts
from services.groups.domain.managers.round_robin import answers_max


def dynamic(table: Table) -> Decision:
    """Ask the member that the manager picked, or the manager for the next one; the run ends with
    the termination token, from either, and after `max_turns` answers."""
    if table.is_waiting:
        return Wait()
    picked = next((each for each in table.present if each.agent_id == table.picked), None)
    if picked is not None:
        return ask(picked)
    last = table.hops[-1] if table.hops else None
    answers = table.answers
    if last is not None and last.status == "completed" and ends(table, last):
        return End() if last.purpose == "pick" and not answers else end_of(answers)
    if len(answers) >= answers_max(table) or not table.present:
        return end_of(answers or list(table.hops))
    if last is None or last.purpose != "pick":
        return picking(table)
    speaker = table.member_named_in(last.text)
    if speaker is not None:
        return Pick(speaker.agent_id, "manager")
    before = table.hops[-2] if len(table.hops) > 1 else None
    if last.status == "completed" and (before is None or before.purpose != "pick"):
        return picking(table, not_a_member(table, without_thoughts(last.text).strip()))
    return by_rotation(table)


def token_of(table: Table) -> str:
    """The words that end a run."""
    return table.config.termination_token or TERMINATION_TOKEN_DEFAULT


def ends(table: Table, hop: Hop) -> bool:
    """Whether somebody said that the conversation is over."""
    said = without_thoughts(hop.text)
    return token_of(table) in said or token_of(table) in said.replace("\\_", "_")


def picking(table: Table, first: str = "") -> Decision:
    """Ask the manager who speaks next; by rotation where it is gone."""
    manager = table.manager
    gone = {hop.agent_id for hop in table.hops if hop.status == "skipped"}
    if manager is None or manager.agent_id in gone:
        return by_rotation(table)
    names = ", ".join(member.name for member in table.present)
    question = (
        f"{first}Who speaks next? Answer with the name of one of these participants and nothing"
        f" else: {names}. Answer {token_of(table)} if the conversation is over."
    )
    return ask(manager, purpose="pick", question=question)


def not_a_member(table: Table, text: str) -> str:
    """What a manager is told whose pick names no member."""
    return f"There is no participant of the name that you gave ({text[:80]!r}). "


def by_rotation(table: Table) -> Decision:
    """The next member in the order of the group."""
    speaker = table.next_in_rotation()
    return Pick(speaker.agent_id, "rotation") if speaker else end_of(list(table.hops))
