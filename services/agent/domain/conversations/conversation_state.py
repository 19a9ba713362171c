"""State of a conversation, and its transition for each event."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field

from libs.contracts.agent.conversations import (
    Message,
)
from libs.contracts.agent.runs import (
    RequestRun,
)
from libs.contracts.bus_messages import (
    BUSY,
    CONFLICT,
    PENDING_APPROVAL,
    JsonObject,
    Rejected,
)
from libs.contracts.letta import error_bodies
from libs.contracts.letta.conversations import ConversationConfig
from libs.contracts.letta.runs import RunConfig
from services.agent.domain.conversations.active_run import (
    ActiveRun,
    QueuedRun,
    RetriedRun,
)
from services.agent.domain.conversations.approval_state import (
    AnsweredCall,
    PendingApproval,
)
from services.agent.domain.conversations.provider_rejected_messages import (
    Omissions,
    Refusals,
    Trial,
)
from services.agent.domain.conversations.window_length import WindowLength

QUEUED_RUNS_MAX = 10_000
QUEUED_BYTES_MAX = 32 << 20


class SystemPrompt(BaseModel):
    """A system message, and the versions of everything that it was made from."""

    content: str
    shows: dict[str, int]


class HeartbeatPause(BaseModel):
    """A pause that the agent asked for, and the run in which it did: the next is like it."""

    until: datetime
    minutes: int
    run: RunConfig
    max_steps: int


class ConversationState(BaseModel):
    """The state of a conversation."""

    agent_id: str = ""
    # What it is beside the agent's own conversation; that has none.
    own: ConversationConfig | None = None
    window: list[Message] = []
    length: WindowLength = Field(default_factory=WindowLength)
    shown: dict[str, int] | None = None
    queue: list[QueuedRun] = []
    queued_bytes: int = 0
    retried: list[RetriedRun] = []
    active_run: ActiveRun | None = None
    pause: HeartbeatPause | None = None
    deleted: bool = False
    omitted: Omissions = Field(default_factory=Omissions)
    trial: Trial = Field(default_factory=Trial)
    # Since a model answered last; None where it was not refused.
    refusals: Refusals | None = None
    # How often in a row no model could summarise it, and when that was last.
    summary_failures: int = 0
    summary_failed_at: datetime | None = None
    # The step whose calls wait for the client. No run starts before it is answered or ended, and
    # its message stays in the window.
    approval: PendingApproval | None = None
    answered: list[AnsweredCall] = []
    # When its latest message was listed: no later one is listed before it.
    listed_at: datetime | None = None

    @property
    def own_blocks(self) -> list[str]:
        """The blocks that were made with the conversation."""
        return [*self.own.isolated_blocks.values()] if self.own else []

    @property
    def unfinished_runs(self) -> list[str]:
        """The runs that have not ended, the active one first."""
        active = [self.active_run.run.id] if self.active_run else []
        return active + [waiting.run.id for waiting in self.queue]

    @property
    def running(self) -> ActiveRun:
        """The active run, where there must be one."""
        assert self.active_run is not None, "a run is active"
        return self.active_run


def overtaken_by(state: ConversationState, request_hash: str, asked_at: datetime) -> str | None:
    """The run that a later retry of a request started, if its first try comes late."""
    return next(
        (
            later.run_id
            for later in state.retried
            if later.request_hash == request_hash and later.asked_at > asked_at
        ),
        None,
    )


def no_room(state: ConversationState, command: RequestRun) -> Rejected | None:
    """The refusal of one more run: where another has not ended and this one may not wait, where
    calls wait for the client, or where as many wait as may."""
    if state.approval is not None:
        return approval_pending(state.approval)
    if command.unless_busy and state.active_run is not None:
        run = state.active_run.run
        reason = str(error_bodies.conversation_busy()["detail"])
        details: JsonObject = {"run_id": run.id, "background": run.background}
        return Rejected(code=CONFLICT, reason=reason, details=details)
    if len(state.queue) >= QUEUED_RUNS_MAX:
        what = f"{QUEUED_RUNS_MAX} runs wait"
    elif state.queued_bytes >= QUEUED_BYTES_MAX:
        what = f"Runs with {QUEUED_BYTES_MAX} bytes of messages wait"
    else:
        return None
    return Rejected(code=BUSY, reason=f"{what} for agent {command.agent_id}: try again later")


def approval_pending(approval: PendingApproval) -> Rejected:
    """The refusal of messages where calls wait for the client's answer."""
    return Rejected(
        code=PENDING_APPROVAL,
        reason=f"Calls wait for an answer: {', '.join(approval.waiting)}",
        details={"pending_request_id": approval.message_id},
    )
