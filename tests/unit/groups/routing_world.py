"""Messages that are routed in memory: processes of the groups service, and agents that answer as
they are told."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from libs.bus.command_dispatcher import CommandDispatcher
from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.bus.ports import IncomingCommand
from libs.contracts.agent.conversations import Message
from libs.contracts.agent.runs import CallingRun
from libs.contracts.bus_messages import BUSY, NOT_FOUND, Accepted, Command, Context, Rejected
from libs.contracts.groups.routing import Pattern, Recipients, RoutedRequest, RouteMessage
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.unit_of_work import Repository
from libs.work.agent_runs import RunProgress, WantedRun
from libs.work.progress import Progress
from libs.work.work_lease import DueWork
from services.groups import projections
from services.groups.engine.delivery_runs import RoutingPorts
from services.groups.engine.routing import RoutedMessages
from services.groups.handlers.routing import RoutingHandlers, TopicHandlers
from tests.clock_and_ids import CountingIds, StandingClock
from tests.leased_work import finish
from tests.unit.given import NOW

ORG = "org-1"
ROUTED = "routed_message-1"
ADA, BOB, CLEO = "agent-a", "agent-b", "agent-c"


@dataclass
class Agents:
    """The runs of agents: keeps the contract of `AgentRuns`. What an agent does is its text, a
    refusal, `FAILS`, or `HANGS` until the run is cancelled."""

    does: dict[str, Any] = field(default_factory=dict)
    runs: dict[str, WantedRun] = field(default_factory=dict)
    ends: dict[str, RunProgress] = field(default_factory=dict)
    started: Counter[str] = field(default_factory=Counter)
    cancelled: list[str] = field(default_factory=list)
    refuses: set[tuple[str, str]] = field(default_factory=set)  # agent and purpose
    busy: set[tuple[str, str]] = field(default_factory=set)
    started_late: asyncio.Event | None = None  # what holds the reply to a start back
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def queries(self) -> Agents:
        """The same object: the rows of these runs."""
        return self

    async def start(self, wanted: WantedRun, context: Context) -> Rejected | None:
        """Accept a run, once, and have it end as its agent does."""
        does = self.does.get(wanted.agent_id, "Done")
        if isinstance(does, Rejected):
            return does
        what = (wanted.agent_id, str((wanted.metadata or {})["purpose"]))
        if what in self.refuses or what in self.busy:
            return IS_GONE if what in self.refuses else IS_BUSY
        self.started[wanted.run_id] += 1
        if wanted.run_id not in self.runs:
            self.runs[wanted.run_id] = wanted
            if self.started_late:
                await self.started_late.wait()
            if does != HANGS:
                status = "failed" if does == FAILS else "completed"
                self.ends[wanted.run_id] = RunProgress(status, "error" if does == FAILS else "")
        return None

    async def run_progress(self, org: str, run_id: str) -> RunProgress | None:
        """How far a run is."""
        return self.ends.get(run_id, RunProgress("running")) if run_id in self.runs else None

    @asynccontextmanager
    async def follow_run(self, org: str, run_id: str) -> AsyncIterator[Progress]:
        """Hear of a run, at once."""
        progress = Progress(lambda _: True)
        progress.deliver("", b"{}")
        yield progress

    async def wait_for_end(
        self, org: str, run_id: str, progress: Progress, *, is_new: bool
    ) -> RunProgress | None:
        """Wait until a run has ended."""
        while run_id not in self.ends:
            await self.changed.wait()
            self.changed.clear()
        return self.ends[run_id]

    async def messages(self, org: str, run_id: str) -> list[dict[str, Any]]:
        """What an agent said in a run."""
        text = self.does.get(self.runs[run_id].agent_id, "Done")
        return [{"message_type": "assistant_message", "content": text}]

    async def cancel(self, agent_id: str, run_id: str, *_: Any) -> None:
        """End a run."""
        self.cancelled.append(run_id)
        self.end(run_id, "cancelled")

    def end(self, run_id: str, status: str = "completed") -> None:
        """Have a run end that hangs."""
        self.ends[run_id] = RunProgress(status)
        self.changed.set()

    def of(self, agent_id: str) -> list[WantedRun]:
        """The runs of an agent."""
        return [run for run in self.runs.values() if run.agent_id == agent_id]

    def heard(self, agent_id: str) -> list[str]:
        """What was said to an agent."""
        return [str(message.content) for run in self.of(agent_id) for message in run.messages]


FAILS, HANGS = object(), object()
IS_BUSY = Rejected(code=BUSY, reason="It has as much to do as there is room for")
IS_GONE = Rejected(code=NOT_FOUND, reason="It is not there")


class World:
    """What the processes share. `can` are the agents that there are, by their capabilities, the
    best first; `topics` are subscribers."""

    def __init__(self, **can: list[str]) -> None:
        self.clock = StandingClock()
        self.database = InMemoryDatabase(self.clock.monotonic)
        self.schema = self.database.schema("groups")
        self.network = InMemoryNetwork()
        self.ids = CountingIds()
        self.agents = Agents()
        self.can = can
        self.there = [ADA, BOB, CLEO]
        self.callers: dict[str, list[CallingRun]] = {}

    # The contract of `RecipientQueries`

    async def with_capability(
        self, org: str, name: str, tags: list[str], seed: str, limit: int
    ) -> list[str]:
        return self.can.get(name, [])[:limit] if org == ORG else []

    async def with_tags(self, org: str, tags: list[str], seed: str, limit: int) -> list[str]:
        return self.there[:limit]

    async def present(self, org: str, agent_ids: list[str], seed: str, limit: int) -> list[str]:
        return [agent_id for agent_id in self.there if agent_id in agent_ids][:limit]

    async def subscribers(self, org: str, topic: str, seed: str, limit: int) -> list[str]:
        rows = self.schema.rows("subscribers")
        return [str(row["agent_id"]) for row in rows if row["topic"] == topic][:limit]

    async def callers_of(self, org: str, run_id: str) -> list[CallingRun] | None:
        return self.callers.get(run_id)

    async def due_messages(self) -> Sequence[DueWork]:
        now = self.database.clock()
        held = {key for key, lease in self.schema.leases.items() if lease.expires_at >= now}
        return [
            DueWork(str(row["id"]), str(row["org"]))
            for row in self.schema.rows("routed_messages")
            if row["status"] == "active" and row["id"] not in held
        ]

    # What tests look at

    def story(self, routed_id: str = ROUTED) -> list[str]:
        """The topics of a message's events."""
        return [event.topic for event in self.schema.streams.get(routed_id, [])]

    def row(self) -> Any:
        """The row of the only message."""
        [row] = self.schema.rows("routed_messages")
        return row

    def deliveries(self) -> list[tuple[Any, ...]]:
        """The delivery log: agent, purpose, status."""
        rows = sorted(self.schema.rows("routed_deliveries"), key=lambda row: int(row["number"]))
        return [(row["agent_id"], row["purpose"], row["status"]) for row in rows]


class Process:
    """One process of the groups service."""

    def __init__(self, world: World, holder: str = "groups-1") -> None:
        self.world = world
        store = InMemoryEventStore(world.database, "groups", holder)
        self.repository = Repository(store, "groups", projections.project)
        self.routed = RoutedMessages(
            RoutingPorts(
                repository=self.repository,
                bus=InMemoryBus(world.network),
                clock=world.clock,
                ids=world.ids,
                committed=lambda: None,
                queries=world,  # type: ignore[arg-type]
                runs=world.agents,  # type: ignore[arg-type]
            )
        )
        table = {
            **RoutingHandlers(self.routed, world, world.clock).table(),  # type: ignore[arg-type]
            **TopicHandlers(world, world.clock).table(),  # type: ignore[arg-type]
        }
        self.shell = CommandDispatcher(self.repository, table)

    async def tell(self, command: Command, message_id: str = "m-1") -> Accepted | Rejected:
        """Handle a command as it comes from the bus."""
        name = f"{command.service}.{command.topic}"
        context = Context(message_id, org=ORG, actor="user-1")
        body = command.model_dump_json().encode()
        return await self.shell.answer(IncomingCommand(name, body, context))

    async def route(self, message_id: str = "m-1", **fields: Any) -> Accepted | Rejected:
        """Have a message routed, and let all end that can."""
        reply = await self.tell(routing(**fields), message_id)
        if not any(does is HANGS for does in self.world.agents.does.values()):
            await finish(self.routed)
        return reply

    async def die(self) -> None:
        """End all that this process does, and let its leases run out."""
        await self.routed.drain()


def routing(
    pattern: Pattern = "one", *, seconds_max: int = 600, caller_run_id: str = "", **fields: Any
) -> RouteMessage:
    """The command that routes a message; the recipients are fields of `Recipients`."""
    rest = {
        name: fields.pop(name) for name in ("callers", "award", "tell_losers") if name in fields
    }
    return RouteMessage(
        routed_message_id=ROUTED,
        request=RoutedRequest(
            pattern=pattern,
            recipients=Recipients(**fields),
            messages=[Message(id="message-1", role="user", content="Do it", created_at=NOW)],
            max_steps=50,
            **rest,
        ),
        caller_run_id=caller_run_id,
        seconds_max=seconds_max,
    )
