"""Start runs of agents, and wait for their ends.

The scheduler, batches, groups and tools have agents answer messages. Each run has an id that
follows from what it is for (a schedule's slot, an item of a batch, a turn of a group), so that a
repeated start means the run that was started before. Who waits for a run reads its row: what the
run publishes only says when a look is worth it. These are single tries; `deliveries` goes on until
there is an answer.

    runs = AgentRuns(bus, PostgresAgentRunQueries(database))
    wanted = WantedRun(run_id=run_id, agent_id=agent_id, messages=[message], created_at=now)
    async with runs.follow_run(org, run_id) as progress:
        refused = await runs.start(wanted, context)
        ended = await runs.wait_for_end(org, run_id, progress)
    messages = await runs.messages(org, run_id)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from libs.bus.ports import Bus
from libs.contracts.agent.approvals import AnswerApproval, CallAnswer
from libs.contracts.agent.conversations import CreateConversation, Message
from libs.contracts.agent.runs import (
    CallingRun,
    CancelRuns,
    ClientTool,
    RequestAnswer,
    RunOptions,
    StartRun,
)
from libs.contracts.bus_messages import CONFLICT, Context, JsonObject, Rejected, delta_subject
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.enums import MessageType
from libs.contracts.letta.message_requests import MAX_STEPS_DEFAULT
from libs.contracts.letta.runs import RunConfig
from libs.eventstore.connection_pool import Database
from libs.work.progress import Progress, ProgressMessage, follow

# How often a run is looked at whose end nobody publishes: often while it is queued, seldom later.
LOOK_SECONDS, LOOK_SECONDS_MAX = 1.0, 5.0
ACTIVE = ("created", "running")


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedRun:
    """A run that is to be started; `metadata` is what clients read of it, such as `schedule_id`.

    Without a `conversation_id` it is in the agent's own conversation. A `new_conversation`, as a V1
    request describes it, is made first, unless it is there. Where `unless_busy`, the run is refused
    with CONFLICT while another run of the conversation has not ended. One that `ends_pause` cancels
    the pause that the agent has asked for. With `answers` it goes on where calls of its
    `client_tools` wait in the conversation; the messages follow them.
    """

    run_id: str
    agent_id: str
    messages: list[Message]
    created_at: datetime
    conversation_id: str | None = None
    new_conversation: JsonObject | None = None
    metadata: JsonObject | None = None
    max_steps: int = MAX_STEPS_DEFAULT
    unless_busy: bool = False
    options: RunOptions | None = None
    client_tools: tuple[ClientTool, ...] = ()
    callers: tuple[CallingRun, ...] = ()
    callback_url: str | None = None
    include_return_message_types: list[MessageType] | None = None
    ends_pause: bool = False
    unless_said: bool = False
    answers: tuple[CallAnswer, ...] = ()

    def command(self) -> StartRun | AnswerApproval:
        """The command that starts it."""
        run = RunConfig(
            id=self.run_id,
            created_at=self.created_at,
            agent_id=self.agent_id,
            conversation_id=self.conversation_id,
            background=True,
            metadata=self.metadata,
            callback_url=self.callback_url,
            include_return_message_types=self.include_return_message_types,
        )
        start = StartRun(
            agent_id=self.agent_id,
            conversation_id=self.conversation_id,
            run=run,
            messages=self.messages,
            max_steps=self.max_steps,
            request_hash=self.run_id,
            unless_busy=self.unless_busy,
            options=self.options,
            client_tools=list(self.client_tools),
            callers=list(self.callers),
            ends_pause=self.ends_pause,
            unless_said=self.unless_said,
        )
        if not self.answers:
            return start
        fields = {name: getattr(start, name) for name in RequestAnswer.model_fields}
        return AnswerApproval(**fields, answers=list(self.answers))

    @property
    def message_id(self) -> str:
        """What the command is called on the bus: the two ways to start the run are two commands."""
        return derived_id("answer", self.run_id) if self.answers else self.run_id


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run is; `usage` and `error` once it has ended."""

    status: str
    stop_reason: str = ""
    usage: JsonObject | None = None
    error: JsonObject | None = None

    @property
    def is_active(self) -> bool:
        """Whether it has not ended."""
        return self.status in ACTIVE


class AgentRunQueries(Protocol):
    """What is read of runs of agents."""

    async def run_progress(self, org: str, run_id: str) -> RunProgress | None:
        """How far a run is, if it was accepted and is not deleted."""

    async def run_messages(self, org: str, run_id: str) -> list[dict[str, Any]]:
        """The V1 messages of a run, those that were sent first."""


class PostgresAgentRunQueries:
    """Keeps the contract of `AgentRunQueries`, from the views of the agent service."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def run_progress(self, org: str, run_id: str) -> RunProgress | None:
        row = await self.database.fetch_one(
            "select status, coalesce(stop_reason, ''), usage, error from agent.run_view"
            " where id = %s and org = %s",
            [run_id, org],
        )
        return RunProgress(*row) if row else None

    async def run_messages(self, org: str, run_id: str) -> list[dict[str, Any]]:
        rows = await self.database.fetch(
            "select v1_messages from agent.message_view where run_id = %s and org = %s"
            " order by position",
            [run_id, org],
        )
        return [v1_message for (v1_messages,) in rows for v1_message in v1_messages]


async def go_on(_: RunProgress | None) -> bool:
    """Wait for a run as long as it takes."""
    return True


class AgentRuns:
    """Runs of agents that one service has other agents make."""

    def __init__(self, bus: Bus, queries: AgentRunQueries) -> None:
        self.bus = bus
        self.queries = queries

    async def start(self, wanted: WantedRun, context: Context) -> Rejected | None:
        """Have a run accepted; returns why it is not. Safe to repeat. Raises BusUnavailable."""
        if wanted.new_conversation is not None:
            assert wanted.conversation_id is not None, "a new conversation has an id"
            refused = await self.make_conversation(
                wanted.agent_id, wanted.conversation_id, wanted.new_conversation, context
            )
            if refused is not None:
                return refused
        reply = await self.bus.request(wanted.command(), context.follow_up(wanted.message_id))
        return reply if isinstance(reply, Rejected) else None

    async def make_conversation(
        self, agent_id: str, conversation_id: str, request: JsonObject, context: Context
    ) -> Rejected | None:
        """Have a conversation made, as a V1 request describes it, unless it is there; returns why
        it is not. Safe to repeat. Raises BusUnavailable."""
        command = CreateConversation(
            conversation_id=conversation_id, agent_id=agent_id, request=request
        )
        name = derived_id("cmd", conversation_id, "create")
        reply = await self.bus.request(command, context.follow_up(name))
        return reply if isinstance(reply, Rejected) and reply.code != CONFLICT else None

    def follow_run(self, org: str, run_id: str) -> AbstractAsyncContextManager[Progress]:
        """Hear that a run has ended, or that its row says something new."""
        subject = delta_subject("agent", "run", "progress", org, run_id)
        return follow(self.bus, subject, wanted=is_worth_a_look)

    async def wait_for_end(
        self,
        org: str,
        run_id: str,
        progress: Progress,
        *,
        goes_on: Callable[[RunProgress], Awaitable[bool]] = go_on,
        is_new: bool = False,
    ) -> RunProgress | None:
        """How a run ended that the caller follows; None if it is deleted, or was never accepted.
        `goes_on` is asked after each look at an active run: the wait ends with that progress once
        it says no. Who follows a run that `is_new` from before its start hears of its end, so its
        row is not looked at before that, or before a silence. Raises StoreUnavailable."""
        look = LOOK_SECONDS
        if is_new and (ended := end_in(await progress.next(look))):
            return ended
        while True:
            run = await self.queries.run_progress(org, run_id)
            if run is None or not run.is_active or not await goes_on(run):
                return run
            is_queued = run.status == "created"
            look = LOOK_SECONDS if is_queued else min(2 * look, LOOK_SECONDS_MAX)
            if ended := end_in(await progress.next(look)):
                return ended

    async def messages(self, org: str, run_id: str) -> list[dict[str, Any]]:
        """The V1 messages of a run, those that were sent first. Raises StoreUnavailable."""
        return await self.queries.run_messages(org, run_id)

    async def cancel(
        self, agent_id: str, run_id: str, context: Context, conversation_id: str | None = None
    ) -> Rejected | None:
        """End a run that nobody waits for any more; returns why it is not ended. Safe to repeat in
        the same context; in another one it is asked anew, for a run that has begun since. Raises
        BusUnavailable."""
        command = CancelRuns(agent_id=agent_id, conversation_id=conversation_id, run_ids=[run_id])
        name = derived_id("withdraw", run_id, context.message_id)
        reply = await self.bus.request(command, context.follow_up(name))
        return reply if isinstance(reply, Rejected) else None


def end_in(heard: ProgressMessage | None) -> RunProgress | None:
    """How a run ended, if a message of it says so: it is sent after that is durable."""
    end = heard.get("end") if heard else None
    if not end:
        return None
    return RunProgress(end["status"], end["stop_reason"], end["usage"], end.get("error"))


def is_worth_a_look(delta: ProgressMessage) -> bool:
    """Whether the row of a run may say something new after a delta."""
    return not delta.keys().isdisjoint(("end", "look"))


def answer_texts(v1_messages: list[dict[str, Any]]) -> list[str]:
    """What the agent said in a run."""
    return [
        text_of(message["content"])
        for message in v1_messages
        if message["message_type"] == "assistant_message"
    ]


def text_of(content: Any) -> str:
    """The text of a message's content."""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if isinstance(part.get("text"), str))
