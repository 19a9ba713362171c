"""The conversation of a group: its transcript, the run that is under way, and those that wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from libs.contracts.agent.conversations import Usage
from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import (
    CONFLICT,
    Event,
    Json,
    Rejected,
)
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.groups.group_runs import (
    GroupConversationForgotten,
    GroupHopEnded,
    GroupHopStarted,
    GroupMessage,
    GroupMessageAppended,
    GroupMessageEdited,
    GroupRunAccepted,
    GroupRunCancelled,
    GroupRunCompleted,
    GroupRunFailed,
    GroupRunStarted,
    GroupTranscriptEmptied,
    MemberRunStatus,
    MemberRunsWithdrawn,
    PickedBy,
    Said,
    SpeakerPicked,
    StartGroupRun,
    ToolAnswer,
    ToolCallMade,
    member_conversation,
    member_run,
)
from services.groups.domain.conversations.group_conversation_state import (
    GroupConversationState,
    MemberRun,
    MemberState,
    evolve,
)
from services.groups.domain.conversations.refusals import no_room, too_much
from services.groups.domain.managers.decisions import Ask, WantedMemberRun
from services.groups.domain.managers.member_tools import words_of

GROUP_HAS_GONE_ON = "The others have heard you, and the group has gone on."


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRunOutcome:
    """What came of a member run."""

    status: MemberRunStatus
    reason: str = ""
    said: list[Said] = field(default_factory=list)
    calls: list[ToolCallMade] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    step_count: int = 0


class GroupConversation(Aggregate[GroupConversationState]):
    """The conversation of one group."""

    State = GroupConversationState

    def accept(self, command: StartGroupRun, manager_type: str, *, at: datetime) -> str | Rejected:
        """Promise to answer; returns the id of the run, which is an earlier one where the command
        is a retry of what came before."""
        known = self.run_of(command)
        if known is not None:
            return known
        refused = too_much(command) or no_room(len(self.state.queue))
        if refused:
            return refused
        self.record(
            GroupRunAccepted,
            at=at,
            group_id=command.group_id,
            run_id=command.run_id,
            messages=[
                message.model_copy(update={"recipients": command.recipients})
                for message in command.messages
            ],
            recipients=command.recipients,
            callers=command.callers,
            max_steps=command.max_steps,
            request_hash=command.request_hash,
            metadata=command.metadata,
            manager_type=manager_type,
        )
        return command.run_id

    def run_of(self, command: StartGroupRun) -> str | None:
        """The run that answers a command already."""
        state = self.state
        active = [state.active] if state.active else []
        runs = [(run.id, run.request_hash) for run in state.ended]
        runs += [(run.id, run.request_hash) for run in (*active, *state.queue)]
        if command.run_id in dict(runs):
            return command.run_id
        if not command.retry or not command.request_hash:
            return None
        alike = [run_id for run_id, known in runs if known == command.request_hash]
        return alike[-1] if alike else None

    def start_next(self, member_ids: Sequence[str], *, at: datetime) -> None:
        """Begin the first run that waits; nothing happens while another one is under way."""
        state = self.state
        if state.active is not None or not state.queue:
            return
        run = state.queue[0]
        self.of_run(GroupRunStarted, run.id, at=at, member_ids=list(member_ids))
        for message in run.messages:
            self.append(message, at=at)

    def append(self, message: GroupMessage, *, at: datetime, hop: int | None = None) -> None:
        """Put a message into the transcript."""
        state = self.state
        self.of_run(
            GroupMessageAppended,
            state.running.id,
            at=at,
            generation=state.generation,
            number=state.number + 1,
            message=message,
            hop=hop,
        )

    def select_speaker(self, agent_id: str, by: PickedBy, *, at: datetime) -> None:
        """Record which member speaks next, and who decided that."""
        self.of_run(SpeakerPicked, self.state.running.id, at=at, agent_id=agent_id, by=by)

    def start_member_runs(
        self, asked: Ask, names: dict[str, str], briefing: str, *, at: datetime
    ) -> None:
        """Ask members; `briefing` is the digest of what each of them has to know of the group."""
        for wanted in asked.hops:
            self.start_member_run(
                wanted, names.get(wanted.agent_id, wanted.agent_id), briefing, at=at
            )

    def start_member_run(
        self, wanted: WantedMemberRun, name: str, briefing: str, *, at: datetime
    ) -> None:
        """Ask one member for what is wanted of it."""
        state, run = self.state, self.state.running
        member = state.members.get(wanted.agent_id)
        alike = [
            hop.up_to
            for hop in run.hops
            if wanted.together and (hop.purpose, hop.asked_in) == (wanted.purpose, wanted.asked_in)
        ]
        conversation_id = member_conversation(state.group_id, wanted.agent_id, state.generation)
        is_known = member is not None and member.briefed == briefing
        self.of_run(
            GroupHopStarted,
            run.id,
            at=at,
            hop=len(run.hops),
            agent_id=wanted.agent_id,
            name=name,
            member_run_id=member_run(run.id, len(run.hops)),
            conversation_id=conversation_id,
            purpose=wanted.purpose,
            since=member.seen if member else run.first - len(run.messages),
            up_to=self.last_shown(wanted, alike),
            question=wanted.question,
            answers=answers_for(member, wanted.answers),
            answers_say_all=wanted.answers_say_all,
            asked_in=wanted.asked_in,
            briefed="" if wanted.continues is not None or is_known else briefing,
            continues=wanted.continues,
        )

    def last_shown(self, wanted: WantedMemberRun, alike: list[int]) -> int:
        """The number of the last message that a member is shown."""
        member = self.state.members.get(wanted.agent_id)
        if wanted.continues is not None and member is not None:
            return member.seen
        return alike[0] if alike else self.state.number

    def end_member_run(
        self, run_id: str, number: int, outcome: MemberRunOutcome, *, at: datetime
    ) -> bool:
        """Record what came of a member run, and put what was said into the transcript. Nothing
        happens if it has ended, or its run; returns whether it was recorded."""
        run = self.state.active
        if run is None or run.id != run_id or not run.hops[number].is_open:
            return False
        hop = run.hops[number]
        self.of_run(
            GroupHopEnded,
            run.id,
            at=at,
            hop=number,
            agent_id=hop.agent_id,
            status=outcome.status,
            reason=outcome.reason,
            said=outcome.said,
            calls=outcome.calls,
            usage=outcome.usage,
            step_count=outcome.step_count,
        )
        if hop.purpose != "pick":
            self.append_said(hop, outcome, at=at)
        return True

    def append_said(self, hop: MemberRun, outcome: MemberRunOutcome, *, at: datetime) -> None:
        """Put into the transcript what a member said, also by calling a tool of the group."""
        said = {each.message_id: each.content for each in outcome.said}
        for call in outcome.calls:
            if words := words_of(call):
                said[derived_id("message", hop.run_id, call.id)] = words
        for message_id, content in said.items():
            message = self.message_of(hop, message_id, content, at)
            self.append(message, at=at, hop=hop.hop)

    def message_of(
        self, hop: MemberRun, message_id: str, content: str, at: datetime
    ) -> GroupMessage:
        """What a member said, for the ears that the run is for."""
        return GroupMessage(
            id=message_id,
            role="assistant",
            content=content,
            created_at=at,
            name=hop.name,
            sender_id=hop.agent_id,
            recipients=self.state.running.recipients,
        )

    def complete(self, stop_reason: str, *, at: datetime) -> None:
        """End the run that is under way well."""
        run = self.state.running
        self.of_run(
            GroupRunCompleted,
            run.id,
            at=at,
            stop_reason=stop_reason,
            usage=run.usage,
            step_count=run.step_count,
            is_idle=self.is_idle_without(run.id),
        )

    def fail(self, message: str, error_type: str, *, at: datetime) -> None:
        """End the run without an answer."""
        run = self.state.running
        self.of_run(
            GroupRunFailed,
            run.id,
            at=at,
            error_type=error_type,
            message=message,
            usage=run.usage,
            step_count=run.step_count,
            open_hops=[hop.hop for hop in run.open_member_runs],
            is_idle=self.is_idle_without(run.id),
        )

    def give_up(self, reason: str, *, at: datetime) -> None:
        """End the run that is under way as failed, without the answers of its members; where none
        is, the runs that wait and what was to be withdrawn."""
        if self.state.active is not None:
            self.fail(reason, "internal_error", at=at)
            return
        self.cancel(None, reason, at=at)
        cleanups = self.state.cleanups
        self.record_withdrawal(
            [cleanup.run_id for cleanup in cleanups if cleanup.run_id],
            [each.conversation_id for each in cleanups if not each.run_id],
            at=at,
        )

    def is_idle_without(self, run_id: str) -> bool:
        """Whether nothing is left to be done once a run is over."""
        state = self.state
        active = [state.active] if state.active else []
        others = [run for run in (*active, *state.queue) if run.id != run_id]
        return not others and not state.cleanups

    def cancel(
        self, run_ids: list[str] | None, reason: str, *, at: datetime
    ) -> dict[str, str] | Rejected:
        """End these runs, or all, wherever they stand; returns for each whether it is `cancelled`,
        or `failed` because it has ended, or there is none."""
        state = self.state
        unended = [*([state.active.id] if state.active else []), *(run.id for run in state.queue)]
        wanted = unended if run_ids is None else run_ids
        gone = [run_id for run_id in reversed(unended) if run_id in wanted]
        if not gone:
            return Rejected(code=CONFLICT, reason="No active runs to cancel")
        for run_id in gone:
            self.cancel_run(run_id, reason, at=at)
        return {run_id: "cancelled" if run_id in gone else "failed" for run_id in wanted}

    def cancel_run(self, run_id: str, reason: str, *, at: datetime) -> None:
        """End one run that has not ended; the runs of its members are withdrawn later."""
        active = self.state.active
        run = active if active is not None and active.id == run_id else None
        open_hops = [hop.hop for hop in run.open_member_runs] if run is not None else []
        self.of_run(
            GroupRunCancelled,
            run_id,
            at=at,
            reason=reason,
            usage=run.usage if run else Usage(),
            step_count=run.step_count if run else 0,
            open_hops=open_hops,
            is_idle=self.is_idle_without(run_id) and not open_hops,
        )

    def reset(
        self, *, group_id: str, reason: str, at: datetime, group_deleted: bool = False
    ) -> None:
        """Empty the transcript and begin anew; what is under way is cancelled."""
        self.cancel(None, reason, at=at)
        state = self.state
        self.record(
            GroupTranscriptEmptied,
            at=at,
            group_id=group_id,
            generation=state.generation + 1,
            group_deleted=group_deleted,
            is_idle=state.is_idle and not state.members and not state.left,
        )
        self.forget_if_over(at=at)

    def edit(self, message_id: str, content: Json, *, at: datetime) -> None:
        """Change what a message says."""
        self.record(
            GroupMessageEdited,
            at=at,
            group_id=self.state.group_id,
            message_id=message_id,
            content=content,
        )

    def record_withdrawal(
        self, run_ids: list[str], conversation_ids: list[str], *, at: datetime
    ) -> None:
        """Record that nothing is left of these runs and conversations."""
        state = self.state
        left = [
            cleanup
            for cleanup in state.cleanups
            if cleanup.run_id not in run_ids
            and (cleanup.run_id or cleanup.conversation_id not in conversation_ids)
        ]
        if len(left) == len(state.cleanups):
            return
        self.record(
            MemberRunsWithdrawn,
            at=at,
            group_id=state.group_id,
            run_ids=run_ids,
            conversation_ids=conversation_ids,
            is_idle=not left and state.active is None and not state.queue,
        )
        self.forget_if_over(at=at)

    def forget_if_over(self, *, at: datetime) -> None:
        """Record that nothing reads this history any more, once its group was deleted and all is
        done. Safe to repeat: after it nothing changes."""
        state = self.state
        if state.is_closed and state.is_idle:
            self.record(GroupConversationForgotten, at=at, group_id=state.group_id)

    def of_run[E: Event](self, event: type[E], run_id: str, *, at: datetime, **fields: Any) -> None:
        """Record an event about a run."""
        self.record(event, at=at, group_id=self.state.group_id, run_id=run_id, **fields)

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        evolve(self.state, event)


def answers_for(member: MemberState | None, answers: Sequence[ToolAnswer]) -> list[ToolAnswer]:
    """Answers to all calls with which a member ended its turn before: that which is known of a
    call, what the manager type says, or that the group has gone on."""
    given = {answer.tool_call_id: answer.content for answer in answers}
    calls = member.calls if member else []
    return [
        ToolAnswer(
            tool_call_id=call.id, content=call.answer or given.get(call.id) or GROUP_HAS_GONE_ON
        )
        for call in calls
    ]
