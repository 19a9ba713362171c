"""Run one simulated world from its plan to its verdict."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from random import Random
from traceback import format_exception

from pydantic_core import to_json

from libs.contracts.bus_messages import JsonObject
from libs.eventstore.in_memory_database import InMemoryDatabase
from tests.sim.archives import archives_of_nobody, left_over
from tests.sim.batches import unfinished_batches
from tests.sim.bus import Broker
from tests.sim.checks import blocks_of_nobody, deleted_blocks_seen, judge
from tests.sim.clients import Clients, SentMessage, agent_id, beside_id
from tests.sim.faults import Faults
from tests.sim.file_rows import FileRows
from tests.sim.files import unfinished_files
from tests.sim.groups import unfinished_groups
from tests.sim.loop import Stuck, Surprise, VirtualLoop
from tests.sim.model import BUG, LEDGER, Ledger
from tests.sim.network import BUS, FAULTS, STORE, Network, Weather
from tests.sim.plan import Plan, Say
from tests.sim.processes import Shared, simulated_adapters
from tests.sim.schedules import unfinished_schedules
from tests.sim.store import Server
from tests.sim.tools import register
from tests.sim.watch import Watch
from tests.topic_counts import told_by

ANSWERED_SECONDS_MAX = 240.0
QUIET_SECONDS_MAX = 120.0
LOOKED_SECONDS = 1.0
CRASHES = ("crash", "crash at", "crash all")


@dataclass(slots=True)
class Outcome:
    """What came of one world."""

    seed: int
    problems: list[str]
    trace: str
    seconds: float = 0.0
    steps: int = 0
    happened: Counter[str] = field(default_factory=Counter)
    did: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class World:
    """One world while it runs."""

    plan: Plan
    loop: VirtualLoop
    shared: Shared
    watch: Watch
    clients: Clients
    ledger: Ledger
    problems: list[str] = field(default_factory=list)

    async def live(self) -> None:
        """Everything that happens."""
        if self.plan.tools:
            await register(self.shared.server.database)
        faults = Faults(self.shared, self.plan)
        whole_again = faults.start()
        answered = self.clients.start()
        if whole_again:
            await asyncio.wait(whole_again)
        self.mend()
        faults.armed.clear()
        _, waiting = await asyncio.wait(answered, timeout=ANSWERED_SECONDS_MAX)
        if waiting:
            self.problems.append(f"{len(waiting)} clients were never answered")
        for done in answered:
            if done.done() and done.exception():
                self.problems.append(f"a client failed: {done.exception()!r}")
        await self.settle()
        if not self.problems:
            await self.last_words()
            await self.settle()

    async def last_words(self) -> None:
        """A message to every conversation that there is: none may stay blocked."""
        agent = self.shared.server.database.schema("agent")
        agents = {row["id"] for row in agent.rows("agents")}
        there = {row["id"] for row in agent.rows("conversations")}
        made = {
            chore.name: chore.agent
            for chore in self.plan.chores
            if chore.name in self.clients.beside
        }
        says = [
            Say(f"last to agent {number}", 0, number, 0.0, thinks=0.1)
            for number in range(len(self.plan.agents))
            if agent_id(number) in agents
        ]
        says += [
            Say(f"last to {name}", 0, number, 0.0, thinks=0.1, into=name)
            for name, number in made.items()
            if beside_id(name) in there
        ]
        told = [SentMessage(say) for say in says]
        await asyncio.gather(*map(self.clients.say, told))
        for answered in told:
            self.ledger.did["conversations asked at the end"] += 1
            # What a compaction takes away before the model sees it is answered all the same.
            forgotten = self.ledger.did["plans forgotten"] > 0 and "So far." in str(answered.body)
            if answered.status != 200 or not (
                forgotten or f"done {answered.say.name}" in str(answered.body)
            ):
                self.problems.append(
                    f"blocked: {answered.say.name} was told {answered.status} {answered.body}"
                )

    def mend(self) -> None:
        """From here on nothing goes wrong any more."""
        network = self.shared.network
        network.weather = Weather()
        network.cut.clear()
        network.down[STORE] = network.down[BUS] = 0

    async def settle(self) -> None:
        """Wait until nothing is left to be done."""
        for _ in range(int(QUIET_SECONDS_MAX / LOOKED_SECONDS)):
            await asyncio.sleep(LOOKED_SECONDS)
            if not self.unsettled():
                return
        self.problems.append(f"it never came to rest: {', '.join(self.unsettled())}")

    def unsettled(self) -> list[str]:
        """What is still to be done."""
        database = self.shared.server.database
        agent, memory = database.schema("agent"), database.schema("memory")
        left = [
            f"{row['id']} is {row['status']}"
            for row in agent.rows("runs")
            if row["status"] not in ("completed", "failed", "cancelled")
        ]
        left += [f"the lease of {key}" for key in agent.leases if key.startswith("conv-")]
        left += deleted_blocks_seen(agent, memory)
        left += [f"the approval of {row['conversation_id']}" for row in agent.rows("approvals")]
        left += [f"the pause of {row['conversation_id']}" for row in agent.rows("heartbeat_pauses")]
        agents = {row["id"] for row in agent.rows("agents")}
        beside = agent.rows("conversations")
        left += [f"{row['id']} of nobody" for row in beside if row["agent_id"] not in agents]
        left += [f"the making of {row['agent_id']}" for row in agent.rows("creations")]
        left += [
            f"the block {block_id}, which nobody has"
            for block_id in blocks_of_nobody(agent, memory)
        ]
        left += [*left_over(memory), *archives_of_nobody(agent, memory)]
        left += unfinished_files(self)
        left += unfinished_batches(agent)
        left += unfinished_groups(database.schema("groups"), agent)
        left += unfinished_schedules(database.schema("scheduler"), agent)
        tools = database.schema("tools")
        left += [
            f"{row['id']} of a tool runs"
            for row in tools.rows("tool_runs")
            if row["status"] == "running"
        ]
        left += [f"the lease of {key}" for key in tools.leases if key.startswith("tool_run-")]
        if not len(tools.committed) == len(tools.log) == tools.published:
            left.append("the relay of tools")
        left += [
            f"the command {command.incoming.name}"
            for commands in self.shared.broker.commands.values()
            for command in commands.values()
        ]
        for name, schema, upstream in (("agent", agent, "memory"), ("memory", memory, "agent")):
            if not len(schema.committed) == len(schema.log) == schema.published:
                left.append(f"the relay of {name}")
            if schema.positions.get(upstream) != len(database.schema(upstream).log):
                left.append(f"the consumer of {upstream}")
        return left


def run(plan: Plan) -> Outcome:
    """The outcome of a plan: the same for the same plan, wherever it runs."""
    loop = VirtualLoop(plan.seed)
    random = Random(f"network of {plan.seed}")
    network = Network(random)
    server = Server(InMemoryDatabase(lambda: loop.now), network)
    if plan.files:
        server.file_rows = FileRows(server.database)
    watch = Watch(loop, server)
    shared = Shared(loop, network, server, Broker(network), watch.asked)
    shared.supervised = plan.supervised
    watch.shared = shared
    server.watchers.append(watch)
    LEDGER[:] = [Ledger()]
    world = World(plan, loop, shared, watch, Clients(shared, plan), LEDGER[-1])
    gc.disable()
    try:
        with simulated_adapters(), heard_errors(watch):
            try:
                loop.run_until_complete(world.live())
            except Stuck as stuck:
                world.problems += [f"stuck at {loop.now:.1f} s: {stuck}", *judge(world)]
            except Surprise as surprise:
                cause = "".join(format_exception(surprise.__cause__))
                world.problems.append(f"at {loop.now:.3f} s: {surprise}: {cause}")
            else:
                world.problems += judge(world)
            trace = traced(loop, server)
            loop.close()
    finally:
        gc.enable()
    did = LEDGER[-1].did + told_by(event.topic for event in server.agent_events())
    happened = network.happened
    did["crashes"] = sum(happened[kind] for kind in CRASHES)
    return Outcome(plan.seed, world.problems, trace, loop.now, loop.steps, happened, did)


def traced(loop: VirtualLoop, server: Server) -> str:
    """A hash of every step that was made and every event that was recorded."""
    digest = sha256(f"{loop.trace} {loop.steps} {loop.now}".encode())
    for name in sorted(server.database.services):
        for event in server.database.schema(name).committed:
            row: JsonObject = {"topic": event.topic, "payload": event.payload}
            digest.update(to_json([event.aggregate_id, event.version, str(event.occurred_at), row]))
    return digest.hexdigest()[:16]


class Errors(logging.Handler):
    """Hears what the services log as errors: each is a surprise to the code."""

    def __init__(self, watch: Watch) -> None:
        super().__init__(logging.ERROR)
        self.watch = watch

    def emit(self, record: logging.LogRecord) -> None:
        problem = record.exc_info[1] if record.exc_info else None
        if not isinstance(problem, FAULTS) and str(problem) != BUG:
            self.watch.errors.append(f"{record.getMessage()}: {problem!r}")


@contextlib.contextmanager
def heard_errors(watch: Watch) -> Iterator[None]:
    """Errors go to the watch; nothing is printed."""
    root, handler = logging.getLogger(), Errors(watch)
    level, handlers = root.level, root.handlers[:]
    root.handlers[:] = [handler]
    root.setLevel(logging.ERROR)
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
