"""Next actions of a run."""

from __future__ import annotations

from dataclasses import dataclass

from libs.contracts.agent.conversations import ToolCall
from services.agent.domain.conversations.approval_state import PendingCall


@dataclass(frozen=True, slots=True)
class AskModel:
    """Ask the model for the step `step_id`."""

    step_id: str


@dataclass(frozen=True, slots=True)
class Compact:
    """Have the conversation compacted, which is all that the run is about."""

    step_id: str


@dataclass(frozen=True, slots=True)
class StartTools:
    """Record that these calls start, side by side."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class RefuseCall:
    """Record that this call is not carried out, and show the model why."""

    call: ToolCall
    why: str


@dataclass(frozen=True, slots=True)
class RunTools:
    """Run these calls, whose start is recorded."""

    step_id: str
    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class EndRun:
    """Record that the run has ended; the reason is one of V1's."""

    stop_reason: str


@dataclass(frozen=True, slots=True)
class AskClient:
    """Record that calls wait for the client, and end the run."""


@dataclass(frozen=True, slots=True)
class ShowAnswer:
    """Show the model what the client answered in place of a result."""

    pending: PendingCall


@dataclass(frozen=True, slots=True)
class ShowFollowUps:
    """Show the model what the client said together with its answer."""


NextAction = (
    AskModel
    | Compact
    | StartTools
    | RefuseCall
    | RunTools
    | EndRun
    | AskClient
    | ShowAnswer
    | ShowFollowUps
)
