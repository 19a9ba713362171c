"""Random histories of an agent in four services: it is seen as it was at random moments of them.

    python -m tests.contract.as_of_histories --histories 1000

The conversation and its forks are those of the state machine in `tests/unit/agent`; between its
commits the agent itself, its blocks, tools, archives, passages and folders change at random. After
each commit in which anybody looks, what the api's own queries answer is kept, with an event of that
commit. In the end each moment is asked for again.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import hypothesis
import psycopg
from hypothesis import HealthCheck, Phase
from hypothesis.stateful import run_state_machine_as_test
from pydantic_core import to_json

from deploy.rebuild import read_models
from libs.bus.clock_and_ids import RandomIds
from libs.bus.moments import MomentHandlers
from libs.bus.ports import Bus
from libs.contracts.agent.agents import (
    AgentCreated,
    AgentDeleted,
    AgentUpdated,
    BlockAttached,
    BlockDetached,
)
from libs.contracts.agent.conversations import main_conversation
from libs.contracts.api.attachments import AttachmentMade, AttachmentRemoved
from libs.contracts.api.identities import IdentityCreated
from libs.contracts.bus_messages import Accepted, Context, Event, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.blocks import BlockState
from libs.contracts.memory.agent_folders import FolderAttached, FolderDetached, agent_folders_id
from libs.contracts.memory.archives import (
    ArchiveAttached,
    ArchiveCreated,
    ArchiveDetached,
    PassageCreated,
    PassageDeleted,
)
from libs.contracts.memory.blocks import BlockChanged, BlockCreated, BlockDeleted
from libs.contracts.memory.folders import FolderCreated
from libs.contracts.moments import MOMENT_TABLES, SERVICES_WITH_MOMENTS, MaterializeMoment
from libs.contracts.tools.tools import ToolChanged, ToolCreated
from libs.eventstore.as_of_reads import reading_as_of
from libs.eventstore.connection_pool import Database, open_pool
from libs.eventstore.event_decoding import event_of
from libs.eventstore.moments import Moments
from libs.eventstore.ports import Commit, NewEvent, StoredEvent
from libs.eventstore.postgres import PostgresEventStore
from services.agent.adapters.moment_aggregates import (
    COPIES,
    SKIPPED_TOPICS,
    AgentMomentAggregates,
)
from services.api.adapters.agents.moment_aggregates import ApiMomentAggregates
from services.api.adapters.agents.past_reads import THE_EVENT, NoSuchMoment, PastReads
from services.api.adapters.conversations.context_message_queries import ContextMessageQueries
from services.api.adapters.conversations.message_queries import History, MessageQueries
from services.api.adapters.resource_query_builder import Filter, ResourceQueries, Slice
from services.api.resources.agents.agents import AGENTS
from services.api.resources.memory.agent_blocks import IS_ATTACHED
from services.api.resources.memory.blocks import BLOCKS
from services.api.resources.memory.passages import OF_AGENT, PASSAGES
from services.api.v1.agent_documents import ALL_RELATIONSHIPS, TOOLS, document_with
from services.groups.adapters.moment_aggregates import GroupMomentAggregates
from services.memory.adapters import moment_aggregates as memory_aggregates
from services.tools.adapters.moment_aggregates import ToolMomentAggregates
from tests.chosen import new_postgres
from tests.contract.archive_examples import ARCHIVE, PASSAGE, VECTOR
from tests.contract.examples import AGENT, BLOCK, EVENTS, ROLL_DICE, TOOL
from tests.contract.file_examples import FOLDER
from tests.contract.identity_examples import IDENTITY
from tests.servers import SERVICE_PASSWORD, PostgresServer
from tests.unit.agent.conversation_histories import STEPS, Histories
from tests.unit.given import NOW

ORG = "org-1"
DATABASE = "as_of_histories"
MOMENTS_OF_EACH = 4
CHUNK_HISTORIES = 50
MAIN = main_conversation(AGENT)

type Unit = tuple[str, list[StoredEvent]]


class RecordedHistories(Histories):
    """The state machine of conversations, which keeps what each commit recorded."""

    all_units: ClassVar[list[list[Unit]]] = []

    def __init__(self) -> None:
        super().__init__()
        self.units: list[Unit] = []

    def commit(self) -> int:
        count = super().commit()
        if count:
            self.units.append(("agent", self.stored[-count:]))
        return count

    def teardown(self) -> None:
        super().teardown()
        self.all_units.append(self.units)


def conversations(seed: int, count: int) -> list[list[Unit]]:
    """The commits of the conversations of so many histories; each seed gives the same ones."""
    RecordedHistories.all_units.clear()
    machine = hypothesis.seed(seed)(type("Recorded", (RecordedHistories,), {}))
    how = hypothesis.settings(
        max_examples=count,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    # What must hold in a conversation is the business of `python -m tests.histories`.
    with suppress(AssertionError), redirect_stdout(io.StringIO()):
        run_state_machine_as_test(machine, settings=how)
    return [*RecordedHistories.all_units]


def example(kind: type[Event]) -> Any:
    """The recorded example of an event."""
    return next(event for event in EVENTS if type(event) is kind)


@dataclass(slots=True)
class Life:
    """What happens to an agent beside its conversations, decided by a seed."""

    random: Random
    versions: dict[str, int] = field(default_factory=dict)
    blocks: list[str] = field(default_factory=list)
    attached: list[str] = field(default_factory=list)
    archives: dict[str, bool] = field(default_factory=dict)
    passages: dict[str, str] = field(default_factory=dict)
    tools: list[str] = field(default_factory=list)
    folders: dict[str, bool] = field(default_factory=dict)
    identities: dict[str, bool] = field(default_factory=dict)
    count: int = 0
    is_over: bool = False

    def begin(self) -> Iterator[Unit]:
        """Two blocks, then the agent."""
        for label in ("human", "persona"):
            yield self.new_block(label)
        self.attached = [*self.blocks]
        created = example(AgentCreated).model_copy(
            update={"block_ids": [*self.attached], "tool_ids": []}
        )
        yield self.unit("agent", AGENT, created)

    def step(self) -> Unit | None:
        """Something that happens."""
        if self.is_over:
            return None
        choices = (
            *(self.edit, self.edit, self.new_and_attached, self.detach, self.delete_block),
            *(self.update, self.attach_archive, self.insert, self.insert, self.forget),
            *(self.tool, self.change_tool, self.folder, self.identity, self.end),
        )
        return self.random.choice(choices)()

    def unit(self, service: str, aggregate_id: str, *events: Event) -> Unit:
        """A commit of events of one aggregate."""
        stored = []
        for event in events:
            version = self.versions[aggregate_id] = self.versions.get(aggregate_id, 0) + 1
            own = {"originator_id": aggregate_id, "originator_version": version, "timestamp": NOW}
            now = event.model_copy(update=own)
            stored.append(
                StoredEvent(
                    *(aggregate_id, version, now.topic, now.schema_version, ORG, now.about),
                    *(now.payload_json(), {}, NOW),
                )
            )
        return service, stored

    def fresh(self, like: str) -> str:
        """An id of the same kind."""
        self.count += 1
        return f"{like[:-12]}{self.count:012d}"

    def words(self) -> str:
        return f"word {self.random.randrange(1_000)}"

    def new_block(self, label: str) -> Unit:
        name = self.fresh(BLOCK)
        self.blocks.append(name)
        block = BlockState(id=name, label=label, value=self.words())
        return self.unit("memory", name, example(BlockCreated).model_copy(update={"block": block}))

    def new_and_attached(self) -> Unit:
        """Of a new block, the making; it is attached by a later step."""
        waiting = [name for name in self.blocks if name not in self.attached]
        if not waiting:
            return self.new_block(f"label-{self.count}")
        self.attached.append(self.random.choice(waiting))
        event = BlockAttached.model_construct(
            block_id=self.attached[-1], block_ids=[*self.attached]
        )
        return self.unit("agent", AGENT, event)

    def edit(self) -> Unit:
        changes = {"value": self.words()}
        event = example(BlockChanged).model_copy(update={"changes": changes})
        return self.unit("memory", self.random.choice(self.blocks), event)

    def detach(self) -> Unit | None:
        if len(self.attached) < 2:
            return None
        gone = self.attached.pop(self.random.randrange(len(self.attached)))
        event = BlockDetached.model_construct(block_id=gone, block_ids=[*self.attached])
        return self.unit("agent", AGENT, event)

    def delete_block(self) -> Unit | None:
        """A block of nobody, or one that the agent has: it shows nothing of it from then on."""
        if len(self.blocks) < 3:
            return None
        gone = self.blocks.pop()
        self.attached = [name for name in self.attached if name != gone]
        return self.unit("memory", gone, BlockDeleted.model_construct())

    def update(self) -> Unit:
        known = example(AgentUpdated)
        config = known.config.model_copy(update={"name": self.words()})
        changed = ["name", "tags"]
        now = {"config": config, "tags": [self.words()], "changed": changed}
        event = known.model_copy(
            update={**now, "block_ids": [*self.attached], "tool_ids": [*self.tools]}
        )
        return self.unit("agent", AGENT, event)

    def attach_archive(self) -> Unit:
        if not self.archives or self.random.random() < 0.3:
            name = self.fresh(ARCHIVE)
            self.archives[name] = own = self.random.random() < 0.5
            made = {"agent_id": AGENT if own else ""}
            return self.unit("memory", name, example(ArchiveCreated).model_copy(update=made))
        name = self.random.choice([*self.archives])
        kind = ArchiveDetached if self.archives[name] else ArchiveAttached
        self.archives[name] = not self.archives[name]
        return self.unit("memory", name, kind.model_construct(agent_id=AGENT))

    def insert(self) -> Unit | None:
        if not self.archives:
            return None
        name, archive = self.fresh(PASSAGE), self.random.choice([*self.archives])
        self.passages[name] = archive
        said = {"archive_id": archive, "text": self.words(), "embedding": VECTOR}
        return self.unit("memory", name, example(PassageCreated).model_copy(update=said))

    def forget(self) -> Unit | None:
        if not self.passages:
            return None
        name = self.random.choice([*self.passages])
        archive = self.passages.pop(name)
        return self.unit("memory", name, PassageDeleted.model_construct(archive_id=archive))

    def tool(self) -> Unit:
        """A new one, which the next update attaches."""
        name = self.fresh(TOOL)
        self.tools.append(name)
        made = ROLL_DICE.model_copy(update={"id": name, "name": f"tool_{self.count}"})
        return self.unit("tools", name, example(ToolCreated).model_copy(update={"tool": made}))

    def change_tool(self) -> Unit | None:
        if not self.tools:
            return None
        event = example(ToolChanged).model_copy(update={"changes": {"tags": [self.words()]}})
        return self.unit("tools", self.random.choice(self.tools), event)

    def folder(self) -> Unit:
        if not self.folders or self.random.random() < 0.3:
            name = self.fresh(FOLDER)
            self.folders[name] = False
            known = example(FolderCreated)
            return self.unit("memory", name, known)
        name = self.random.choice([*self.folders])
        kind: Any = FolderDetached if self.folders[name] else FolderAttached
        self.folders[name] = not self.folders[name]
        event = kind.model_construct(agent_id=AGENT, folder_id=name)
        return self.unit("memory", agent_folders_id(AGENT), event)

    def identity(self) -> Unit:
        """A new one, or one that is attached to the agent, or no more."""
        if not self.identities or self.random.random() < 0.3:
            name = self.fresh(IDENTITY)
            self.identities[name] = False
            return self.unit("api", name, example(IdentityCreated))
        name = self.random.choice([*self.identities])
        kind = AttachmentRemoved if self.identities[name] else AttachmentMade
        self.identities[name] = not self.identities[name]
        pair = derived_id("attachment", name, AGENT)
        return self.unit("api", pair, kind.model_construct(owner_id=name, target_id=AGENT))

    def end(self) -> Unit | None:
        """Now and then the agent is deleted."""
        if self.random.random() > 0.05:
            return None
        self.is_over = True
        event = example(AgentDeleted)
        return self.unit("agent", AGENT, event)


def mixed(talk: Sequence[Unit], random: Random) -> Iterator[Unit]:
    """The commits of a conversation among those of everything else."""
    life = Life(random)
    yield from life.begin()
    for unit in talk:
        yield unit
        for _ in range(random.randrange(3)):
            happened = life.step()
            if happened is not None:
                yield happened


class Handled:
    """The bus as far as `PastReads` needs it: the handlers of the services answer."""

    def __init__(self, handlers: dict[str, MomentHandlers]) -> None:
        self.handlers = handlers

    async def request(
        self, command: MaterializeMoment, context: Context, *, seconds_max: float
    ) -> Accepted | Rejected:
        work: Any = SimpleNamespace(context=context)
        return await self.handlers[command.service].materialize(command, work)


class Clock:
    """The time of this machine."""

    def now(self) -> Any:
        return NOW

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Services:
    """The four services as their roles see one database, and the api."""

    def __init__(self, admin_url: str, databases: dict[str, Database]) -> None:
        self.admin_url = admin_url
        self.stores = {
            name: PostgresEventStore(databases[name], name, "test")
            for name in SERVICES_WITH_MOMENTS
        }
        aggregates: dict[str, Any] = {
            "agent": AgentMomentAggregates(databases["agent"]),
            "memory": memory_aggregates.MemoryMomentAggregates(databases["memory"]),
            "tools": ToolMomentAggregates(),
            "groups": GroupMomentAggregates(databases["groups"]),
            "api": ApiMomentAggregates(databases["api"]),
        }
        skipped = {"agent": SKIPPED_TOPICS, "memory": memory_aggregates.SKIPPED_TOPICS}
        clock: Any = Clock()
        self.models = {name: read_models(name) for name in SERVICES_WITH_MOMENTS}
        copies = {"agent": COPIES}
        self.moments = {
            name: Moments(
                databases[name], self.models[name], skipped.get(name, ()), copies.get(name)
            )
            for name in SERVICES_WITH_MOMENTS
        }
        self.handlers = {
            name: MomentHandlers(self.moments[name], aggregates[name], clock)
            for name in SERVICES_WITH_MOMENTS
        }
        api = databases["api"]
        self.past = PastReads(api, cast(Bus, Handled(self.handlers)), clock, RandomIds())
        self.reads = ResourceQueries(api)
        self.messages = MessageQueries(api)
        self.context = ContextMessageQueries(api)

    async def commit(self, unit: Unit) -> None:
        """Record what a commit says, with its rows, as the service does."""
        service, events = unit
        commit = Commit(
            [
                NewEvent(
                    *(event.aggregate_id, event.version, event.topic, event.schema_version, ORG),
                    *(event.about, event.payload_json, {}, event.occurred_at),
                )
                for event in events
            ]
        )
        for event in events:
            self.models[service].project(event_of(service, event), ORG, commit.rows)
        await self.stores[service].commit(commit)

    async def look(self) -> dict[str, Any]:
        """What the api answers about the agent."""
        values = {"org": ORG, "agent": AGENT}
        remembered = Filter(["v.org = %(org)s"], dict(values)).add(OF_AGENT)
        attached = Filter(["v.org = %(org)s"], dict(values)).add(IS_ATTACHED)
        part = Slice(limit=1_000)
        shown = await self.context.in_context(ORG, AGENT, MAIN)
        return {
            "agent": await self.reads.one(AGENTS, ORG, AGENT, document_with(ALL_RELATIONSHIPS)),
            "tools": await self.reads.one(AGENTS, ORG, AGENT, TOOLS),
            "blocks": await self.reads.page(BLOCKS, attached, part),
            "passages": await self.reads.page(PASSAGES, remembered, part),
            "messages": await self.messages.messages(
                History(ORG, AGENT, None, structured_summaries=True), part
            ),
            "own messages": await self.messages.messages(History(ORG, AGENT, MAIN), part),
            "context": [(message.id, message.role, message.v1_messages) for message in shown],
            "count": await self.context.message_count(ORG, AGENT, MAIN),
        }

    async def look_at(self, event: str) -> dict[str, Any]:
        """The same, as of an event."""
        try:
            cut = await self.past.resolve(ORG, AGENT, event)
        except NoSuchMoment:
            # Nobody attached it to the agent, ever: but it has its place in the order of commits.
            aggregate_id, _, version = event.rpartition(".")
            assert not aggregate_id.startswith(("agent", "conv")), event
            named = {"agent": AGENT, "org": ORG, "aggregate": aggregate_id, "version": int(version)}
            found = await self.past.find_settled(THE_EVENT, named)
            assert found is not None, event
            cut = found
        context = Context(message_id="look", org=ORG)
        with reading_as_of(await self.past.moments(cut, context)):
            return await self.look()

    def forget(self) -> None:
        """Empty all tables."""
        with psycopg.connect(self.admin_url, autocommit=True) as connection:
            for service in SERVICES_WITH_MOMENTS:
                tables = [f"{service}.{table.name}" for table in self.models[service].tables]
                tables += [f"{service}.{name}" for name in ("events", "log", "snapshots")]
                tables += [f"{service}_as_of.{name}_rows" for name in MOMENT_TABLES[service]]
                for table in (*tables, f"{service}_as_of.moments"):
                    connection.execute(f"delete from {table}".encode())


@asynccontextmanager
async def services(server: PostgresServer) -> AsyncIterator[Services]:
    """A database of its own, with connections as each service has them."""
    admin_url = server.create_migrated_database(DATABASE)
    async with AsyncExitStack() as stack:
        databases = {}
        for name in SERVICES_WITH_MOMENTS:
            url = server.server.url(DATABASE, user=f"heeler_{name}", password=SERVICE_PASSWORD)
            databases[name] = Database(await stack.enter_async_context(open_pool(url)))
        yield Services(admin_url, databases)


async def live(world: Services, talk: Sequence[Unit], seed: int) -> list[str]:
    """Live one history; returns what was not shown as it was."""
    random = Random(seed)
    units = [*mixed(talk, random)]
    born = 3  # the commits after which there is an agent
    looks = {random.randrange(born, len(units) + 1) for _ in range(MOMENTS_OF_EACH)}
    seen: list[tuple[str, dict[str, Any]]] = []
    for number, unit in enumerate(units, 1):
        await world.commit(unit)
        if number in looks:
            event = random.choice(unit[1])
            answers = await world.look()
            if answers["agent"] is not None:
                seen.append((f"{event.aggregate_id}.{event.version}", answers))
    problems = []
    for event, answered in random.sample(seen, len(seen)):
        try:
            again = await world.look_at(event)
        except Exception as problem:
            problems.append(f"seed {seed}, {event}: {problem!r}")
            continue
        problems += [
            f"seed {seed}, {event}, {name}:\n  {shown(answered[name])}\n  {shown(again[name])}"
            for name in answered
            if answered[name] != again[name]
        ]
    world.forget()
    return problems


def shown(answer: Any) -> str:
    return (answer if isinstance(answer, bytes) else to_json(answer)).decode()


async def check(server: PostgresServer, first: int, count: int) -> list[str]:
    """Live so many histories; returns all that was not shown as it was."""
    problems: list[str] = []
    lived, seed = 0, first
    async with services(server) as world:
        while lived < count:
            for talk in conversations(seed, min(CHUNK_HISTORIES, count - lived)):
                lived += 1
                problems += await live(world, talk, 100_000 * first + lived)
            seed += 1
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=1_000)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    asked = parser.parse_args()
    began = time.monotonic()
    server = new_postgres().start()
    try:
        problems = asyncio.run(check(server, asked.first, asked.histories))
    finally:
        server.close()
    for problem in problems:
        print(problem)
    seconds = time.monotonic() - began
    print(f"{asked.histories:,} histories, {len(problems)} differences, {seconds:.0f} s")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
