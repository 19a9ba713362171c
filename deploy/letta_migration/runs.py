"""Rows of the old server's runs and steps as the events of runs that have ended.

Messages are not part of these events: they carry the ids of their run and step, and stand where the
old server had them, also where it answered two runs of an agent at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from deploy.letta_migration.histories import History
from deploy.letta_migration.messages import utc
from deploy.letta_migration.source import Row
from libs.contracts.agent.approvals import (
    ApprovalAnswered,
    ApprovalCancelled,
    ApprovalRequested,
    RecordedAnswer,
    WaitingCall,
    arguments_hash,
)
from libs.contracts.agent.conversations import Message, MessageAppended, Usage
from libs.contracts.agent.runs import (
    QueuedRunsCancelled,
    RunAccepted,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunStarted,
)
from libs.contracts.agent.steps import ModelReplied, StepAnnotated, UnfinishedStep
from libs.contracts.letta.enums import MessageType, RunStatus, StopReasonType
from libs.contracts.letta.runs import RunConfig

MAX_STEPS = 50  # what the old server allowed a run, which it did not keep
ENDED = frozenset({"completed", "failed", "cancelled"})
FAILED_WITHOUT_A_WORD = "The Letta server that answered this run did not say why it failed."
TYPES = frozenset(kind.value for kind in MessageType)
REASONS = frozenset(reason.value for reason in StopReasonType)


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run of the old server, with its steps in their order and what it measured of them."""

    row: Row
    steps: Sequence[Row] = ()
    metrics: Row | None = None
    step_metrics: dict[str, Row] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The id of the run."""
        return str(self.row["id"])

    @property
    def is_over(self) -> bool:
        """Whether the old server has brought it to an end."""
        return self.row["status"] in ENDED

    @property
    def begin_time(self) -> datetime:
        """When the old server accepted it."""
        return utc(self.row["created_at"])

    @property
    def end_time(self) -> datetime:
        """When it ended, or when it was last heard of."""
        return utc(self.row["completed_at"] or self.row["updated_at"] or self.row["created_at"])

    @property
    def took_ns(self) -> int:
        """The duration of a run in nanoseconds."""
        measured = self.row["total_duration_ns"] or (self.metrics or {}).get("run_ns")
        return int(measured or (self.end_time - self.begin_time).total_seconds() * 1e9)


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A step whose calls wait for the client."""

    run_id: str
    step_id: str
    message_id: str
    call_ids: tuple[str, ...]


def run_config(row: Row) -> RunConfig:
    """The run as clients read it. No callback is made for it any more."""
    asked = row.get("request_config") or {}
    types = asked.get("include_return_message_types")
    fields = {
        name: asked[name]
        for name in (
            "use_assistant_message",
            "assistant_message_tool_name",
            "assistant_message_tool_kwarg",
        )
        if asked.get(name) is not None
    }
    return RunConfig(
        id=row["id"],
        status=RunStatus.created,
        created_at=utc(row["created_at"]),
        agent_id=row["agent_id"],
        conversation_id=row.get("conversation_id"),
        base_template_id=row.get("base_template_id"),
        background=bool(row["background"]),
        metadata=row["metadata_"],
        include_return_message_types=types
        and [MessageType(kind) for kind in types if kind in TYPES],
        ttft_ns=row["ttft_ns"],
        **fields,
    )


def usage_of(step: Row) -> Usage:
    """The tokens of a step. Releases before 0.16.5 have the details as JSON alone."""
    prompt = step.get("prompt_tokens_details") or {}
    completion = step.get("completion_tokens_details") or {}
    cached = step.get("cached_input_tokens")
    written = step.get("cache_write_tokens")
    reasoning = step.get("reasoning_tokens")
    return Usage(
        prompt_tokens=step["prompt_tokens"],
        completion_tokens=step["completion_tokens"],
        cached_input_tokens=(prompt.get("cached_tokens") if cached is None else cached) or 0,
        cache_write_tokens=(prompt.get("cache_creation_tokens") if written is None else written)
        or 0,
        reasoning_tokens=(completion.get("reasoning_tokens") if reasoning is None else reasoning)
        or 0,
    )


def answered_steps(steps: Sequence[Row]) -> list[Row]:
    """The steps that a model has answered; before there was a status all of them were."""
    return [step for step in steps if (step.get("status") or "SUCCESS") == "SUCCESS"]


def begin(history: History, run: PastRun, answer: PendingRequest | None = None) -> None:
    """Let a run have begun: the first of the events of a run."""
    history.add(
        RunAccepted,
        run.begin_time,
        run_id=run.id,
        run=run_config(run.row),
        messages=[],
        max_steps=MAX_STEPS,
        request_hash="",
        answers=answer is not None,
    )
    history.add(RunStarted, run.begin_time, run_id=run.id, agent_id=run.row["agent_id"])


def answer_request(
    history: History, run: PastRun, asked: PendingRequest, answers: Sequence[RecordedAnswer]
) -> None:
    """Let a run that has begun have brought the answers to calls that waited."""
    history.add(
        ApprovalAnswered,
        run.begin_time,
        run_id=run.id,
        step_id=asked.step_id,
        request_id=asked.message_id,
        answers=list(answers),
        waiting=[],
    )


def cancel_request(history: History, asked: PendingRequest, at: datetime) -> None:
    """Let nobody wait for the answer any more: the old server went on without one."""
    history.add(
        ApprovalCancelled,
        at,
        run_id=asked.run_id,
        step_id=asked.step_id,
        request_id=asked.message_id,
        tool_call_ids=list(asked.call_ids),
    )


def step_through(history: History, run: PastRun, asks: tuple[str, Message] | None = None) -> None:
    """Let a run that has begun have had its steps; the one that `asks` names has the calls of that
    message, which wait for the client."""
    for step in answered_steps(run.steps):
        measured = run.step_metrics.get(step["id"]) or {}
        calls = asks[1].tool_calls if asks and asks[0] == step["id"] else []
        history.add(
            ModelReplied,
            utc(step["created_at"]),
            run_id=run.id,
            step_id=step["id"],
            agent_id=run.row["agent_id"],
            model_ns=int(measured.get("llm_request_ns") or 0),
            model=step["model"] or "",
            usage=usage_of(step),
            finish_reason=step["stop_reason"] or "stop",
            tool_calls=calls,
        )
        said = {
            name: step[name] for name in ("feedback", "tid", "tags") if step.get(name) is not None
        }
        if said.get("tags") == []:
            del said["tags"]
        if said:
            history.add(
                StepAnnotated,
                utc(step["created_at"]),
                run_id=run.id,
                step_id=step["id"],
                changes=said,
            )
    if asks and not any(asks[0] == step["id"] for step in answered_steps(run.steps)):
        history.add(
            ModelReplied,
            run.end_time,
            run_id=run.id,
            step_id=asks[0],
            agent_id=run.row["agent_id"],
            model="",
            usage=Usage(),
            finish_reason="requires_approval",
            tool_calls=asks[1].tool_calls,
        )


def end(history: History, run: PastRun) -> None:
    """Let a run that has begun have ended as it did; one that never ended was cancelled."""
    steps = answered_steps(run.steps)
    usage = Usage()
    for step in steps:
        usage = usage.plus(usage_of(step))
    fields: dict[str, Any] = {
        "run_id": run.id,
        "usage": usage,
        "step_count": len(steps),
        "total_duration_ns": run.took_ns,
    }
    reason = run.row["stop_reason"]
    match run.row["status"]:
        case "completed":
            last = usage_of(steps[-1]) if steps else Usage()
            history.add(
                RunCompleted,
                run.end_time,
                stop_reason=reason if reason in REASONS else "end_turn",
                context_tokens=last.prompt_tokens + last.completion_tokens,
                **fields,
            )
        case "failed":
            said = (run.row["metadata_"] or {}).get("error")
            history.add(
                RunFailed,
                run.end_time,
                stop_reason=reason if reason in REASONS else "error",
                error_type="internal_server_error",
                message=said if isinstance(said, str) and said else FAILED_WITHOUT_A_WORD,
                step=unfinished_step(run),
                **fields,
            )
        case _:
            history.add(RunCancelled, run.end_time, step=unfinished_step(run), **fields)


def unfinished_step(run: PastRun) -> UnfinishedStep | None:
    """The step that was under way when a run ended, if one was."""
    left = [step for step in run.steps if (step.get("status") or "SUCCESS") != "SUCCESS"]
    if not left:
        return None
    step = left[-1]
    return UnfinishedStep(
        id=step["id"], agent_id=run.row["agent_id"], asked=True, model=step["model"] or ""
    )


def never_began(history: History, run: PastRun) -> None:
    """Let a run have been accepted and cancelled before its turn."""
    history.add(
        RunAccepted,
        run.begin_time,
        run_id=run.id,
        run=run_config(run.row),
        messages=[],
        max_steps=MAX_STEPS,
        request_hash="",
    )
    history.add(QueuedRunsCancelled, run.end_time, run_ids=[run.id])


def ask(history: History, run: PastRun, appended: dict[str, Any], at: datetime) -> PendingRequest:
    """Let the last step of a run have asked the client, by the message that is appended: the run
    ends, and its calls wait."""
    message: Message = appended["message"]
    step_id = str(appended["step_id"])
    begin(history, run)
    step_through(history, run, asks=(step_id, message))
    history.add(MessageAppended, at, **appended)
    history.add(
        ApprovalRequested,
        at,
        run_id=run.id,
        agent_id=run.row["agent_id"],
        step_id=step_id,
        message_id=message.id,
        calls=[
            WaitingCall(tool_call_id=call.id, tool=call.name, arguments_hash=arguments_hash(call))
            for call in message.tool_calls
        ],
    )
    end(history, run)
    return PendingRequest(
        run.id, step_id, message.id, tuple(call.id for call in message.tool_calls)
    )
