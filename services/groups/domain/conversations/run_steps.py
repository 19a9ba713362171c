"""The next step of a group's runs: what is decided, recorded, and left for the engine to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from libs.contracts.bus_messages import JsonObject, Rejected
from libs.contracts.groups.group_runs import ToolAnswer
from libs.contracts.groups.groups import GroupConfig
from services.groups.domain.conversations.group_conversation import GroupConversation
from services.groups.domain.conversations.group_conversation_state import (
    ActiveGroupRun,
    GroupConversationState,
    MemberCleanup,
    MemberRun,
)
from services.groups.domain.conversations.member_messages import briefing_of, digest
from services.groups.domain.managers.all_managers import decide
from services.groups.domain.managers.decisions import (
    Ask,
    AskModel,
    End,
    Fail,
    GroupFacts,
    Participant,
    SelectSpeaker,
    WantedMemberRun,
)
from services.groups.domain.state_document import render

# In one step: a pick and the question that follows it, and a little more.
DECISIONS_MAX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run that is under way, as the engine needs it to have members answer."""

    config: GroupConfig
    state: GroupConversationState
    run: ActiveGroupRun
    facts: GroupFacts
    people: list[Participant]
    briefing: str
    shared_state: JsonObject


@dataclass(slots=True, kw_only=True)
class Step:
    """What a step leaves to be done. `ended` are the runs that it has ended, each with its
    status."""

    is_idle: bool = False
    asks_model: bool = False
    view: RunView | None = None
    cleanups: list[MemberCleanup] = field(default_factory=list)
    ended: dict[str, str] = field(default_factory=dict)


def take_step(
    conversation: GroupConversation,
    config: GroupConfig,
    shared_state: JsonObject,
    people: list[Participant],
    *,
    at: datetime,
) -> Step:
    """Go on with the run that is under way, or begin the next one, as far as that goes without an
    answer of a member or a model."""
    step = Step()
    briefing = briefing_of(config.name, config.description, people, render(shared_state))
    names = {person.agent_id: person.name for person in people}
    conversation.start_next(members_of(config), at=at)
    run = conversation.state.active
    if run is not None and (left := unfinished_turns(run)):
        conversation.start_member_runs(Ask(tuple(left)), names, digest(briefing), at=at)
    for _ in range(DECISIONS_MAX):
        if run is None:
            break
        facts = facts_of(conversation.state, run, config, people)
        decision = decide(facts, is_private=bool(run.recipients))
        match decision:
            case SelectSpeaker():
                conversation.select_speaker(decision.agent_id, decision.by, at=at)
            case Ask():
                conversation.start_member_runs(decision, names, digest(briefing), at=at)
                break
            case End():
                conversation.complete(decision.stop_reason, at=at)
                step.ended[run.id] = "completed"
                break
            case Fail():
                conversation.fail(decision.message, decision.error_type, at=at)
                step.ended[run.id] = "failed"
                break
            case _:
                step.asks_model = isinstance(decision, AskModel)
                break
    finish(step, conversation)
    run = conversation.state.active
    if run is not None:
        step.view = RunView(
            config=config,
            state=conversation.state.model_copy(deep=True),
            run=run.model_copy(deep=True),
            facts=facts_of(conversation.state, run, config, people),
            people=people,
            briefing=briefing,
            shared_state=shared_state,
        )
    return step


def unfinished_turns(run: ActiveGroupRun) -> list[WantedMemberRun]:
    """Members that are to go on: their turns ended with calls that all have their answers."""
    continued = {hop.continues for hop in run.hops}
    return [
        WantedMemberRun(
            agent_id=hop.agent_id,
            purpose=hop.purpose,
            answers=tuple(
                ToolAnswer(tool_call_id=call.id, content=call.answer) for call in hop.calls
            ),
            answers_say_all=True,
            asked_in=hop.asked_in,
            continues=hop.hop,
        )
        for hop in run.hops
        if hop.calls and all(call.answer for call in hop.calls) and hop.hop not in continued
    ]


def whole_turns(hops: list[MemberRun]) -> list[MemberRun]:
    """The member runs of a run, each of those that continue another one in its place."""
    turns: dict[int, MemberRun] = {}
    for hop in hops:
        before = turns.pop(hop.continues, None) if hop.continues is not None else None
        texts = [*before.texts, *hop.texts] if before else hop.texts
        turns[hop.hop] = hop.model_copy(update={"texts": texts})
    return list(turns.values())


def finish(step: Step, conversation: GroupConversation) -> None:
    """Say what is left in the conversation."""
    step.cleanups = list(conversation.state.cleanups)
    step.is_idle = conversation.state.is_idle


def close(conversation: GroupConversation, reason: str, *, at: datetime) -> Step:
    """End all runs of a group that is gone, and have its members' conversations go with it."""
    state, step = conversation.state, Step()
    outcome = conversation.cancel(None, reason, at=at)
    if not isinstance(outcome, Rejected):
        step.ended = outcome
    if not state.is_closed:
        conversation.reset(group_id=state.group_id, reason=reason, at=at, group_deleted=True)
    finish(step, conversation)
    return step


def members_of(config: GroupConfig) -> list[str]:
    """The agents that take part in a group: its members, and its manager."""
    manager = [config.manager_agent_id] if config.manager_agent_id else []
    return list(dict.fromkeys([*config.agent_ids, *manager]))


def facts_of(
    state: GroupConversationState,
    run: ActiveGroupRun,
    config: GroupConfig,
    people: list[Participant],
) -> GroupFacts:
    """Who takes part in a run: everybody, or those that a private message is for."""
    addressed = [
        person for person in people if not run.recipients or person.agent_id in run.recipients
    ]
    manager = next((each for each in people if each.agent_id == config.manager_agent_id), None)
    members = [
        person
        for person in addressed
        if person.agent_id in config.agent_ids or (run.recipients and person is manager)
    ]
    return GroupFacts(
        config=config,
        members=tuple(members),
        manager=manager,
        hops=tuple(whole_turns(run.hops)),
        next_speaker=run.next_speaker,
        last_speaker=state.last_speaker,
    )
