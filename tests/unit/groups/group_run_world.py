"""Groups in memory: processes of the groups service, and agents that answer as they are told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

from libs.bus.aggregate_locks import AggregateLocks
from libs.bus.command_dispatcher import CommandDispatcher
from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.bus.ports import IncomingCommand
from libs.contracts.bus_messages import NOT_FOUND, Accepted, Command, Context, JsonObject, Rejected
from libs.contracts.groups.group_runs import (
    GroupMessage,
    StartGroupRun,
    group_conversation,
)
from libs.contracts.groups.groups import GroupConfig, GroupCreated, UpdateGroupState
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.unit_of_work import Repository
from libs.work.agent_runs import AgentRuns, RunProgress, WantedRun
from libs.work.work_lease import DueWork
from services.groups import projections
from services.groups.domain.conversations.group_conversation import GroupConversation
from services.groups.domain.group import Group
from services.groups.domain.managers.decisions import Participant
from services.groups.engine.group_runs import GroupRunPorts, GroupRuns
from services.groups.handlers.group_runs import GroupRunHandlers
from tests.clock_and_ids import CountingIds, ManualClock
from tests.unit.given import NOW

ORG = "org-1"
GROUP = "group-1"
RUN = "group_run-1"
CONTEXT = Context("request-1", org=ORG)
ENDED = RunProgress("completed", "end_turn", {"prompt_tokens": 3, "completion_tokens": 2})

# What an agent answers to what it is sent: V1 messages, or how its run ended instead.
type Answer = str | list[JsonObject] | RunProgress | Rejected
type Speak = Callable[[WantedRun], Awaitable[Answer]]


def said(text: str, number: int = 0) -> JsonObject:
    """A message of an agent, as V1 clients read it."""
    return {"id": f"message-{number}", "message_type": "assistant_message", "content": text}


def calls(tool: str, **arguments: Any) -> list[JsonObject]:
    """A call of a tool that waits at the end of a run."""
    call = {"name": tool, "arguments": json.dumps(arguments), "tool_call_id": f"call-{tool}"}
    message_type = "approval_request_message"
    return [{"id": "message-c", "message_type": message_type, "tool_calls": [cast(Any, call)]}]


class FakeAgents:
    """Stands in for `AgentRuns`: agents that answer each run once, however often it is started."""

    def __init__(self, speak: Speak) -> None:
        self.speak = speak
        self.wanted: dict[str, WantedRun] = {}
        self.answers: dict[str, asyncio.Task[Answer]] = {}
        self.cancelled: list[str] = []

    async def start(self, wanted: WantedRun, context: Context) -> Rejected | None:
        if wanted.run_id not in self.answers:
            self.wanted[wanted.run_id] = wanted
            self.answers[wanted.run_id] = asyncio.ensure_future(self.speak(wanted))
            await asyncio.sleep(0)
        task = self.answers[wanted.run_id]
        answer = task.result() if task.done() else None
        return answer if isinstance(answer, Rejected) else None

    @asynccontextmanager
    async def follow_run(self, org: str, run_id: str) -> AsyncIterator[None]:
        yield

    async def wait_for_end(
        self, org: str, run_id: str, progress: None, *, goes_on: Any
    ) -> RunProgress | None:
        task = self.answers[run_id]
        while not task.done():
            if not await goes_on(RunProgress("running")):
                return RunProgress("running")
            await asyncio.sleep(0)
        answer = task.result()
        if isinstance(answer, RunProgress):
            return answer if answer.status else None
        waits = isinstance(answer, list) and any("tool_calls" in each for each in answer)
        reason = "requires_approval" if waits else "end_turn"
        return RunProgress(ENDED.status, reason, ENDED.usage)

    async def messages(self, org: str, run_id: str) -> list[JsonObject]:
        answer = self.answers[run_id].result()
        if isinstance(answer, RunProgress | Rejected):
            return []
        if isinstance(answer, str):
            answer = [said(answer)]
        return [{**message, "id": f"{message['id']}-{run_id}"} for message in answer]

    async def cancel(
        self, agent_id: str, run_id: str, context: Context, conversation_id: str | None = None
    ) -> None:
        self.cancelled.append(run_id)


class Queries:
    """What the groups service reads, from the rows in memory."""

    def __init__(self, database: InMemoryDatabase, agents: dict[str, Participant]) -> None:
        self.database = database
        self.agents = agents
        self.schema = database.schema("groups")

    async def due_conversations(self) -> list[DueWork]:
        now = self.database.clock()
        held = {key for key, lease in self.schema.leases.items() if lease.expires_at >= now}
        groups = {row["id"] for row in self.schema.rows("groups")}
        return [
            DueWork(str(row["id"]), str(row["org"]))
            for row in self.schema.rows("group_conversations")
            if (row["is_pending"] or (row["is_open"] and row["group_id"] not in groups))
            and row["id"] not in held
        ]

    async def participants(self, org: str, agent_ids: list[str]) -> list[Participant]:
        return [self.agents[agent_id] for agent_id in agent_ids if agent_id in self.agents]

    async def has_message(self, org: str, group_id: str, message_id: str) -> bool:
        rows = self.schema.rows("group_messages")
        return any(row["id"] == message_id and row["group_id"] == group_id for row in rows)


class GroupWorld:
    """One group, its agents, and a process of the groups service."""

    def __init__(
        self,
        names: list[str],
        speak: Speak,
        *,
        shared_state: JsonObject | None = None,
        **config: Any,
    ) -> None:
        self.shared_state = shared_state or {}
        self.clock = ManualClock()
        self.database = InMemoryDatabase(self.clock.monotonic)
        self.people = {f"agent-{name}": Participant(f"agent-{name}", name) for name in names}
        self.config = GroupConfig.model_validate({"agent_ids": [*self.people], **config})
        self.agents = FakeAgents(speak)
        self.bus = InMemoryBus(InMemoryNetwork())
        self.requests: list[Command] = []
        self.writes: dict[str, Accepted | Rejected] = {}
        self.start_process("process-1")

    def start_process(self, holder: str) -> None:
        """A process takes the place of the one before."""
        self.locks = AggregateLocks()
        self.repository = Repository(
            InMemoryEventStore(self.database, "groups", holder), "groups", projections.project
        )
        self.queries = Queries(self.database, self.people)
        self.bus.request = self.take_request  # type: ignore[assignment, method-assign]
        ports = GroupRunPorts(
            repository=self.repository,
            bus=self.bus,
            clock=self.clock,
            ids=CountingIds(),
            committed=lambda: None,
            locks=self.locks,
            queries=self.queries,
            agent_runs=cast(AgentRuns, self.agents),
        )
        self.runs = GroupRuns(ports)
        handlers = GroupRunHandlers(self.runs, self.queries, self.clock)
        self.dispatcher = CommandDispatcher(self.repository, handlers.table())

    async def take_request(
        self, command: Command, context: Context, **_: object
    ) -> Accepted | Rejected:
        """The agent service: it has the agents that the world has."""
        self.requests.append(command)
        if isinstance(command, UpdateGroupState):
            return await self.write_state(command, context)
        agent_id = getattr(command, "agent_id", None)
        if agent_id is not None and agent_id not in self.people:
            return Rejected(code=NOT_FOUND, reason=f"Agent {agent_id} is not there")
        return Accepted()

    async def write_state(self, command: UpdateGroupState, context: Context) -> Accepted | Rejected:
        """The groups service's own answer to a write; a repeated one is answered as before."""
        if context.message_id not in self.writes:
            work = self.repository.work(context)
            group = await work.load(Group, GROUP)
            refused = group.write_state(command, at=NOW)
            await work.commit()
            accepted = Accepted(result={"state": group.state.shared_state})
            self.writes[context.message_id] = refused or accepted
        return self.writes[context.message_id]

    async def begin(self) -> None:
        """Make the group."""
        work = self.repository.work(Context("setup", org=ORG))
        group = await work.load(Group, GROUP)
        group.record(GroupCreated, at=NOW, config=self.config, shared_state=self.shared_state)
        await work.commit()

    async def send(self, command: Command, message_id: str = "") -> Accepted | Rejected:
        """Send a command; it is answered at once."""
        name = message_id or f"command-{len(self.requests)}-{command.topic}"
        context = Context(name, org=ORG)
        async with self.locks.hold(command.target):
            topic = f"{command.service}.{command.topic}"
            payload = command.model_dump_json().encode()
            return await self.dispatcher.answer(IncomingCommand(topic, payload, context))

    async def say(
        self, text: str, run_id: str = RUN, recipients: list[str] | None = None
    ) -> Accepted | Rejected:
        """Send one message to the group."""
        message = GroupMessage(id=f"message-of-{run_id}", content=text, created_at=NOW)
        command = StartGroupRun(
            group_id=GROUP,
            run_id=run_id,
            messages=[message],
            created_at=NOW,
            recipients=recipients or [],
        )
        return await self.send(command, run_id)

    async def conversation(self) -> GroupConversation:
        """The conversation of the group as of now."""
        conversation_id = group_conversation(GROUP)
        return await self.repository.load(GroupConversation, conversation_id, org=ORG)

    def run(self, run_id: str = RUN) -> JsonObject:
        """The row of a run."""
        [row] = [row for row in self.queries.schema.rows("group_runs") if row["id"] == run_id]
        return row

    def hops(self, run_id: str = RUN) -> list[JsonObject]:
        """The hops of a run, in their order."""
        rows = self.queries.schema.rows("group_hops")
        return sorted(
            (row for row in rows if row["run_id"] == run_id), key=lambda row: cast(int, row["hop"])
        )

    def speakers(self, run_id: str = RUN) -> list[str]:
        """Who was asked, in the order of the hops."""
        return [str(cast(JsonObject, hop["fields"])["name"]) for hop in self.hops(run_id)]

    def transcript(self) -> list[tuple[str | None, str]]:
        """Who said what."""
        rows = sorted(
            self.queries.schema.rows("group_messages"), key=lambda row: cast(int, row["number"])
        )
        documents = [cast(JsonObject, row["fields"]) for row in rows]
        return [(cast(Any, each["name"]), str(each["content"])) for each in documents]

    def shown(self, hop: int, run_id: str = RUN) -> list[str]:
        """What the member of a hop was shown."""
        member_run = str(self.hops(run_id)[hop]["member_run_id"])
        return [str(message.content) for message in self.agents.wanted[member_run].messages]
