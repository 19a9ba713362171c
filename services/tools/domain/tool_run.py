"""One call of a tool: begun, and ended once, whatever came of it."""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from typing import Literal

from pydantic import BaseModel
from pydantic_core import to_json

from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import CONFLICT, Event, Json, JsonObject, Rejected
from libs.contracts.letta.tools import ToolState
from libs.contracts.tools.tool_runs import (
    ARGUMENTS_KEPT_CHARS_MAX,
    PRINTED_CHARS_MAX,
    RunTool,
    ToolRunBegun,
    ToolRunEnded,
    ToolRunForgotten,
    ToolRunLost,
    ToolRunRefused,
    ToolRunResult,
    ToolRunSampled,
    ToolRunStopped,
)

Phase = Literal["unknown", "running", "ended", "forgotten"]

HASH_CHARS = 16


class ToolRunState(BaseModel):
    """The state of a call."""

    phase: Phase = "unknown"


class ToolRun(Aggregate[ToolRunState]):
    """One call."""

    State = ToolRunState

    @property
    def deleted(self) -> bool:
        """Whether nothing will happen to it any more."""
        return self.state.phase in ("ended", "forgotten")

    @property
    def running(self) -> bool:
        """Whether its result is still to come."""
        return self.state.phase == "running"

    def begin(self, command: RunTool, tool: ToolState, *, at: datetime) -> Rejected | None:
        """Be about to be called."""
        if self.exists:
            return Rejected(code=CONFLICT, reason=f"{self.id} was begun before")
        arguments = to_json(command.arguments).decode()
        self.record(
            ToolRunBegun,
            at=at,
            **identity_of(command, tool),
            arguments=arguments[:ARGUMENTS_KEPT_CHARS_MAX],
            source_hash=sha256((tool.source_code or "").encode()).hexdigest()[:HASH_CHARS],
            seconds_max=command.seconds_max,
        )
        return None

    def refuse(self, command: RunTool, tool: ToolState, why: str, *, at: datetime) -> None:
        """Not be called, because whoever wants that may not; safe to repeat."""
        if self.exists:
            return
        self.record(ToolRunRefused, at=at, **identity_of(command, tool), reason=why)

    def record_sampling(self, answer: JsonObject, *, at: datetime) -> None:
        """Record that a model was asked (the fields of `ToolRunSampled`), unless the call has
        ended."""
        if self.running:
            self.record(ToolRunSampled, at=at, **answer)

    def end(self, result: ToolRunResult, *, at: datetime) -> None:
        """Have a result; nothing happens if it has ended otherwise."""
        if self.running:
            self.record(ToolRunEnded, at=at, result=result)

    def stop(self, *, at: datetime) -> None:
        """End without one, because nobody waits for it."""
        if self.running:
            self.record(ToolRunStopped, at=at)

    def lose(self, *, at: datetime) -> None:
        """End without one, because its process has died."""
        if self.running:
            self.record(ToolRunLost, at=at)

    def forget(self, *, at: datetime) -> None:
        """Be kept no longer, once it has ended; safe to repeat."""
        if self.state.phase == "ended":
            self.record(ToolRunForgotten, at=at)

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        match event:
            case ToolRunBegun():
                self.state.phase = "running"
            case ToolRunEnded() | ToolRunStopped() | ToolRunLost() | ToolRunRefused():
                self.state.phase = "ended"
            case ToolRunForgotten():
                self.state.phase = "forgotten"


def identity_of(command: RunTool, tool: ToolState) -> dict[str, str]:
    """The fields of an event that say which call of which tool it is about, and whose."""
    named = {"tool_id", "agent_id", "run_id", "step_id", "tool_call_id"}
    return {"name": tool.name, **command.model_dump(include=named)}


def text_of(value: Json) -> str:
    """A tool's value as the model reads it: the way Python writes it, objects as JSON."""
    match value:
        case str():
            return value
        case dict():
            return to_json(value).decode()
    return str(value)


def printed_texts(text: str) -> list[str]:
    """The output of a tool as clients read it, cut at `PRINTED_CHARS_MAX`; empty without output."""
    if len(text) <= PRINTED_CHARS_MAX:
        return [text] if text else []
    left_out = len(text) - PRINTED_CHARS_MAX
    return [f"{text[:PRINTED_CHARS_MAX]}... [{left_out} characters left out]"]
