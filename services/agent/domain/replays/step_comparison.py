"""The recorded and the replayed transcript of a run beside each other, step by step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import zip_longest

from libs.contracts.agent.conversations import Message, MessageAppended, Usage
from libs.contracts.agent.run_replays import ReplayedAnswer, ReplayedEnd, ReplayedStep
from libs.contracts.agent.runs import RunCancelled, RunCompleted, RunFailed
from libs.contracts.agent.steps import ModelReplied, ToolCallsStarted, ToolCallStarted
from libs.contracts.agent.stored_to_letta_messages import served_messages
from libs.contracts.bus_messages import Event, Json, JsonObject
from services.agent.domain.conversations.active_run import nanoseconds
from services.agent.domain.replays.recorded_calls import key_of
from services.agent.domain.runs.step_results import error_fields


@dataclass(slots=True)
class TranscriptStep:
    """The answer of a model, the messages of its step, and when its calls began and ended."""

    reply: ModelReplied
    messages: list[Message] = field(default_factory=list)
    began: datetime | None = None
    ended: datetime | None = None

    @property
    def tool_ns(self) -> int:
        """From the start of the first call to the last result."""
        return nanoseconds(self.began, self.ended) if self.began and self.ended else 0


@dataclass(slots=True)
class Transcript:
    """The steps of a run by their numbers, and how it ended."""

    steps: dict[int, TranscriptStep] = field(default_factory=dict)
    end: RunCompleted | RunFailed | RunCancelled | None = None

    def outcome(self) -> ReplayedEnd:
        """The end of the replay, and the sums over its steps."""
        used, took = Usage(), 0
        for step in self.steps.values():
            used = used.plus(step.reply.usage)
            took += step.reply.model_ns + step.tool_ns
        end = self.end
        error = error_fields(end) if isinstance(end, RunFailed) else None
        return ReplayedEnd(
            stop_reason=stop_reason(end),
            error=error,
            steps=len(self.steps),
            usage=used,
            duration_ns=took,
        )


@dataclass(frozen=True, slots=True)
class ComparedStep:
    """A step of both transcripts, and where they differ."""

    number: int
    recorded: ReplayedStep | None
    replayed: ReplayedStep | None
    answers: list[ReplayedAnswer]
    differences: list[JsonObject]


def transcript(events: Iterable[Event], first_step: int) -> Transcript:
    """The steps that these events of one run tell of; the first one has this number."""
    found, number = Transcript(), first_step - 1
    for event in events:
        step = found.steps.get(number)
        match event:
            case ModelReplied():
                number += 1
                found.steps[number] = TranscriptStep(event)
            case MessageAppended() if step is not None and not event.sent:
                step.messages.append(event.message)
                if event.message.role == "tool":
                    step.ended = event.timestamp
            case ToolCallStarted() | ToolCallsStarted() if step is not None:
                step.began = step.began or event.timestamp
            case RunCompleted() | RunFailed() | RunCancelled():
                found.end = event
    return found


def compare(
    recorded: Transcript, replayed: Transcript, answers: Sequence[ReplayedAnswer], replay_id: str
) -> list[ComparedStep]:
    """Both transcripts step by step; the messages of the replay name it as their run."""
    numbers = sorted({*recorded.steps, *replayed.steps})
    sources = {(answer.step, answer.tool_call_id): answer for answer in answers}
    compared = []
    for number in numbers:
        before, now = recorded.steps.get(number), replayed.steps.get(number)
        calls = now.reply.tool_calls if now else []
        compared.append(
            ComparedStep(
                number,
                show_step(before, before.reply.run_id) if before else None,
                show_step(now, replay_id) if now else None,
                [sources[number, call.id] for call in calls if (number, call.id) in sources],
                differences(before, now),
            )
        )
    return compared


def show_step(step: TranscriptStep, run_id: str) -> ReplayedStep:
    """A step as the report shows it."""
    reply = step.reply
    return ReplayedStep(
        model=reply.model,
        finish_reason=reply.finish_reason,
        usage=reply.usage,
        at=reply.timestamp,
        model_ns=reply.model_ns,
        tool_ns=step.tool_ns,
        messages=[
            served
            for message in step.messages
            for served in served_messages(message, run_id=run_id, step_id=reply.step_id)
        ],
    )


def differences(before: TranscriptStep | None, now: TranscriptStep | None) -> list[JsonObject]:
    """Where the messages of a step differ, each by its place in the step; ids and times do not
    count."""
    pairs = zip_longest(
        [comparable(message) for message in before.messages] if before else [],
        [comparable(message) for message in now.messages] if now else [],
    )
    found: list[JsonObject] = []
    for place, (old, new) in enumerate(pairs):
        if old == new:
            continue
        if old is None or new is None:
            found.append({"message": place, "fields": ["missing" if new is None else "added"]})
            continue
        fields: list[Json] = [name for name in old if old[name] != new[name]]
        found.append({"message": place, "fields": fields})
    if not found and (before is None) != (now is None):
        found.append({"message": 0, "fields": ["missing" if now is None else "added"]})
    return found


def comparable(message: Message) -> dict[str, object]:
    """The fields of a message that have to be the same in both transcripts."""
    return {
        "role": message.role,
        "content": message.content,
        "reasoning": message.reasoning,
        "reasoning_parts": message.reasoning_parts,
        "tool_calls": [(key_of(call), call.gated) for call in message.tool_calls],
        "name": message.name,
        "status": message.tool_status,
        "stdout": message.stdout,
        "stderr": message.stderr,
    }


def stop_reason(end: RunCompleted | RunFailed | RunCancelled | None) -> str | None:
    """Why a run ended; None for one of which that is not recorded."""
    match end:
        case RunCompleted() | RunFailed():
            return end.stop_reason
        case RunCancelled():
            return "cancelled"
        case None:
            return None
