"""Restores in memory: the api's engine, and an agent whose parts other services have."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, cast

from libs.contracts.agent.agents import AttachBlock, DetachBlock, RestoreConfiguration
from libs.contracts.agent.compaction import ReplaceContext
from libs.contracts.agent.conversations import main_conversation
from libs.contracts.api.restores import RequestRestore, RestoredPart, restores_id
from libs.contracts.bus_messages import CONFLICT, Accepted, Command, Context, Rejected
from libs.contracts.letta.blocks import BlockState
from libs.contracts.memory.blocks import CreateBlocks, RestoreBlock, UpdateBlock
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.ports import Fence
from libs.eventstore.unit_of_work import Repository
from libs.work.work_lease import DueWork, WorkLease
from services.api.adapters.agents.past_reads import Cut, PastReads
from services.api.adapters.agents.restore_queries import Memory
from services.api.domain.agent_restore import AgentRestores, RestoresState
from services.api.engine.restores import RestorePorts, Restores
from services.api.handlers.ports import HandlerPorts
from services.api.handlers.restores import RestoreHandlers
from services.api.projections import project
from tests.clock_and_ids import CountingIds, ManualClock

AGENT = "agent-11111111-1111-4111-8111-111111111111"
ORG = "org-1"
LEASE_SECONDS = 60.0
MAIN = main_conversation(AGENT)


class Died(BaseException):
    """The process has died."""


@dataclass
class Parts:
    """What an agent has: the values of its blocks, which are attached, its configuration, and what
    models are shown."""

    blocks: dict[str, str] = field(default_factory=dict)
    attached: list[str] = field(default_factory=list)
    configuration: str = "young"
    context: list[str] = field(default_factory=list)

    def of(self, part: RestoredPart) -> Any:
        """What a restore of this part gives back. A block that was made again has another id."""
        match part:
            case "blocks":
                return sorted(self.blocks[name] for name in self.attached)
            case "configuration":
                return self.configuration
            case "context":
                return self.context


class Elsewhere:
    """The other services: each change of the parts is a commit, and each command is answered once,
    under its name."""

    def __init__(self) -> None:
        self.commits = [Parts()]
        self.inbox: set[str] = set()
        self.created: set[str] = set()
        self.now_at: int | None = None
        self.requested: dict[int, int] = {}
        self.refused: type[Command] | None = None
        self.not_shown: dict[int, Exception] = {}  # commits as of which nothing can be read
        self.dies: set[str] = set()
        self.sent: list[Command] = []

    @property
    def newest(self) -> Parts:
        """The parts as they are now."""
        return self.commits[-1]

    @property
    def shown(self) -> Parts:
        """The parts as of the moment that is read."""
        return self.newest if self.now_at is None else self.commits[self.now_at]

    def change(self, apply: Any) -> None:
        """Commit a change, if it is one."""
        parts = copy.deepcopy(self.newest)
        apply(parts)
        if parts != self.newest:
            self.commits.append(parts)

    # The bus

    async def request(
        self, command: Command, context: Context, *, seconds_max: float = 1.0
    ) -> Accepted | Rejected:
        """Answer a command, once; the process may die before that, or before it hears of it."""
        self.sent.append(command)
        self.die(f"before {len(self.sent)}")
        if context.message_id not in self.inbox:
            if self.refused is not None and isinstance(command, self.refused):
                self.refused = None  # what undoes the rest is not refused
                return Rejected(code=CONFLICT, reason="a label is taken")
            self.carry_out(command)
            self.inbox.add(context.message_id)
        self.die(f"after {len(self.sent)}")
        return Accepted()

    def die(self, point: str) -> None:
        """Die here, once, if a test wants it."""
        if point in self.dies:
            self.dies.remove(point)
            raise Died(point)

    def carry_out(self, command: Command) -> None:
        """What the service does that has the part."""
        match command:
            case ReplaceContext():
                self.change(lambda parts: setattr(parts, "context", command.message_ids))
            case RestoreConfiguration():
                past = self.commits[command.version].configuration
                self.change(lambda parts: setattr(parts, "configuration", past))
            case RestoreBlock():
                value = self.commits[command.version].blocks[command.block_id]
                self.change(lambda parts: parts.blocks.update({command.block_id: value}))
            case UpdateBlock():
                given = {command.block_id: str(command.changes["value"])}
                self.change(lambda parts: parts.blocks.update(given))
            case CreateBlocks():
                made = {block.id: block.value for block in command.blocks}
                self.created |= made.keys()
                self.change(lambda parts: parts.blocks.update(made))
            case AttachBlock():
                self.change(lambda parts: parts.attached.append(command.block_id))
            case DetachBlock():
                self.change(lambda parts: parts.attached.remove(command.block_id))
            case _:
                raise AssertionError(command)

    # The past

    @asynccontextmanager
    async def as_of(self, cut: Cut, context: Context) -> AsyncIterator[None]:
        """Show the parts as of a commit."""
        if cut.commit_order in self.not_shown:
            raise self.not_shown[cut.commit_order]
        self.now_at = cut.commit_order
        try:
            yield
        finally:
            self.now_at = None

    # The queries

    async def due_restores(self, limit: int) -> list[DueWork]:
        return []

    async def context(self, org: str, agent_id: str) -> list[str]:
        return list(self.shown.context)

    async def memory(self, org: str, agent_id: str) -> Memory:
        attached = list(self.shown.attached)
        return Memory(attached, await self.present_blocks(org, attached))

    async def present_blocks(self, org: str, block_ids: Sequence[str]) -> dict[str, BlockState]:
        blocks = self.shown.blocks
        return {
            name: BlockState(id=name, label=name[:9], value=blocks[name])
            for name in block_ids
            if name in blocks
        }

    async def created_blocks(self, org: str, block_ids: Sequence[str]) -> set[str]:
        return self.created & set(block_ids)

    async def versions_at(
        self, org: str, service: str, ids: Sequence[str], cut: int
    ) -> dict[str, int]:
        return dict.fromkeys(ids, cut)

    async def commit_of(self, org: str, restores_id: str, version: int) -> int | None:
        return self.requested[version]


class RestoreWorld:
    """An agent with a random life, and processes of the api, of which the next takes over where one
    has died."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.seconds = 0.0
        self.database = InMemoryDatabase(lambda: self.seconds)
        self.elsewhere = Elsewhere()
        self.clock, self.ids = ManualClock(), CountingIds()
        self.processes = 0

    def live(self, changes: int) -> None:
        """Change something, so many times."""
        elsewhere, random = self.elsewhere, self.random
        for _ in range(changes):
            parts = elsewhere.newest
            word = f"word {len(elsewhere.commits)}"
            attached, loose = parts.attached, sorted(parts.blocks.keys() - set(parts.attached))
            match random.choice(["new", "edit", "detach", "attach", "delete", "rename", "say"]):
                case "edit" if attached:
                    edited = {random.choice(attached): word}
                    elsewhere.change(lambda parts, edited=edited: parts.blocks.update(edited))
                case "detach" if attached:
                    name = random.choice(attached)
                    elsewhere.change(lambda parts, name=name: parts.attached.remove(name))
                case "attach" if loose:
                    name = random.choice(loose)
                    elsewhere.change(lambda parts, name=name: parts.attached.append(name))
                case "delete" if attached:
                    name = random.choice(attached)
                    elsewhere.change(lambda parts, name=name: gone(parts, name))
                case "rename":
                    elsewhere.change(lambda parts, word=word: setattr(parts, "configuration", word))
                case "say":
                    said = [*parts.context[random.randrange(2) :], word]
                    elsewhere.change(lambda parts, said=said: setattr(parts, "context", said))
                case _:
                    name = f"block-{len(elsewhere.commits)}"
                    elsewhere.created.add(name)
                    elsewhere.change(lambda parts, name=name, word=word: made(parts, name, word))

    def process(self) -> Restores:
        """One more process of the api."""
        self.processes += 1
        store = InMemoryEventStore(self.database, "api", f"api-{self.processes}")
        ports = RestorePorts(
            repository=Repository(store, "api", project),
            bus=cast(Any, self.elsewhere),
            clock=self.clock,
            ids=self.ids,
            committed=lambda: None,
            queries=self.elsewhere,
            past=cast(PastReads, self.elsewhere),
        )
        return Restores(ports)

    async def request(self, cut: int, what: list[RestoredPart], name: str = "restore-1") -> Any:
        """Want something back."""
        command = RequestRestore(
            restore_id=name,
            agent_id=AGENT,
            moment="then",
            cut=cut,
            cut_at=self.clock.now(),
            what=what,
        )
        restores = self.process()
        restores.stopping = True  # nothing begins but what the test begins
        ports = cast(HandlerPorts, restores.ports)
        unit = restores.ports.repository.work(Context(f"request-{name}", org=ORG))
        reply = await RestoreHandlers(ports, restores).request_restore(command, unit)
        await unit.commit()
        version = (await self.state()).requested_version
        self.elsewhere.requested.setdefault(version, len(self.elsewhere.commits) - 1)
        return reply

    async def attempt(self) -> None:
        """Let the next process take over; it may die. What another one holds has run out."""
        self.seconds += LEASE_SECONDS
        restores = self.process()
        work = DueWork(restores_id(AGENT), ORG)
        epoch = await restores.ports.repository.store.take_lease(work.id)
        assert epoch is not None
        lease = WorkLease(work, Fence(work.id, epoch), restores.ports, Context("sweep", org=ORG))
        with suppress(Died):
            await restores.attempt(lease)

    async def end(self, attempts_max: int = 30) -> RestoresState:
        """Attempt until nothing is left to do."""
        for _ in range(attempts_max):
            state = await self.state()
            if state.phase == "none":
                return state
            await self.attempt()
        raise AssertionError("it never ends")

    async def state(self) -> RestoresState:
        """What is known of the newest restore."""
        repository = self.process().ports.repository
        return (await repository.load(AgentRestores, restores_id(AGENT), org=ORG)).state

    def row(self, name: str = "restore-1") -> Any:
        """The row that the client waits for."""
        return next(
            row for row in self.database.schema("api").rows("restores") if row["id"] == name
        )


def gone(parts: Parts, name: str) -> None:
    """Delete a block."""
    del parts.blocks[name]
    parts.attached.remove(name)


def made(parts: Parts, name: str, word: str) -> None:
    """Make a block, and attach it."""
    parts.blocks[name] = word
    parts.attached.append(name)
