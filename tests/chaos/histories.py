"""R39: what many clients see of blocks and histories could have happened one after the other,
while processes die (R01) and cannot reach each other (R15)."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.chaos.client import NO_ANSWER, Answer, Client
from tests.chaos.dose import Dose
from tests.chaos.linearizable import UNKNOWN, Model, Operation, linearizable, log, register
from tests.chaos.network import NetworkWorld
from tests.chaos.oracle import Verdict
from tests.chaos.partitions import ROUNDS, separated
from tests.chaos.workload import Workload

BLOCKS, AGENTS = 4, 2
CLIENTS_PER_BLOCK, CLIENTS_PER_AGENT = 4, 2
ROUND_SECONDS = 14.0
PARTITION_SECONDS = 6.0
KILL_PAUSE_SECONDS = (2.5, 4.0)
OPERATION_PAUSE_SECONDS = (0.02, 0.15)
ANSWER_SECONDS_MAX = 12.0
INSISTING_SECONDS_MAX = 30.0
READ_SHARE = 0.5


@dataclass(slots=True)
class Subject:
    """A block or a conversation, and everything that was done to it."""

    path: str
    model: Model
    kind: str
    history: list[Operation] = field(default_factory=list)

    @property
    def initial(self) -> object:
        return "" if self.model is register else ()

    def body(self, value: str) -> dict[str, object]:
        if self.model is register:
            return {"value": value}
        return {"messages": [{"role": "user", "content": f"{value} SAY:noted"}]}

    def seen(self, answer: Answer) -> object:
        """What a read saw."""
        document = answer.json()
        if self.model is register:
            return document["value"]
        said = (message for message in document if message["message_type"] == "user_message")
        return tuple(str(message["content"]).split()[0] for message in said)


async def r39_linearizable(world: NetworkWorld, dose: Dose) -> Verdict:
    """Rounds of 20 clients; each block and each conversation of a round makes one history."""
    await world.restored()
    verdict = Verdict("R39")
    counted: dict[str, float] = defaultdict(float)
    for number in range(dose.faults):
        first_kill = len(world.kills)
        subjects = await fresh_subjects(world)
        await one_round(world, subjects, number)
        verdict.kills += sum(not kill.until for kill in world.kills[first_kill:])
        for subject in subjects:
            await check(subject, verdict, counted)
    verdict.messages = int(counted["operations"])
    verdict.figures |= counted
    return verdict


async def fresh_subjects(world: NetworkWorld) -> list[Subject]:
    """New blocks and new agents, all empty."""
    client, name = world.client(), world.new_name("R39")
    subjects = []
    for number in range(BLOCKS):
        body = {"label": "register", "value": ""}
        answer = await client.send("POST", "/v1/blocks", body, key=f"{name}-{number}")
        assert answer.ok, f"creating a block: {answer.status} {answer.body!r}"
        subjects.append(Subject(f"/v1/blocks/{answer.json()['id']}", register, "write"))
    workload = Workload(client, name)
    await workload.create_agents(AGENTS)
    paths = (f"/v1/agents/{agent}/messages" for agent in workload.agents)
    return [*subjects, *(Subject(path, log, "append") for path in paths)]


async def one_round(world: NetworkWorld, subjects: list[Subject], number: int) -> None:
    """All clients at work while things die and lose each other; in the end everybody looks."""
    until = time.monotonic() + ROUND_SECONDS
    clients = []
    for n, subject in enumerate(subjects):
        many = CLIENTS_PER_BLOCK if subject.model is register else CLIENTS_PER_AGENT
        clients += [work(world, subject, f"{n}-{c}", until) for c in range(many)]
    working = [asyncio.create_task(client) for client in clients]
    faults = [asyncio.create_task(fault) for fault in (kill_on(world, until), part(world, number))]
    await asyncio.gather(*working, *faults)
    await world.healthy()
    for subject in subjects:
        await read(subject, lambda path: world.client().send("GET", path))


async def kill_on(world: NetworkWorld, until: float) -> None:
    """R01: kill -9 of a random process, again and again."""
    while time.monotonic() < until:
        await asyncio.sleep(world.random.uniform(*KILL_PAUSE_SECONDS))
        await world.kill9(world.random.choice(world.services))


async def part(world: NetworkWorld, number: int) -> None:
    """R15: for a while some processes do not reach a server."""
    async with separated(world, ROUNDS[number % len(ROUNDS)]):
        await asyncio.sleep(PARTITION_SECONDS)


async def work(world: NetworkWorld, subject: Subject, name: str, until: float) -> None:
    """One client: read or write, one after the other. Every second client insists with a key on
    what it writes, the others take the first answer for the last."""
    client = world.client()
    insists = world.random.random() < 0.5
    number = 0
    while time.monotonic() < until:
        if world.random.random() < READ_SHARE:
            await read(subject, lambda path: asked_once(client, "GET", path))
        else:
            number += 1
            await write(client, subject, f"{name}-{number}", insists=insists)
        await asyncio.sleep(world.random.uniform(*OPERATION_PAUSE_SECONDS))


async def read(subject: Subject, ask: Callable[[str], Awaitable[Answer]]) -> None:
    listed = "" if subject.model is register else "?order=asc&limit=1000"
    called = time.monotonic()
    answer = await ask(subject.path + listed)
    if answer.ok:
        value = subject.seen(answer)
        subject.history.append(Operation("read", value, called, time.monotonic()))


async def write(client: Client, subject: Subject, value: str, *, insists: bool) -> None:
    method = "PATCH" if subject.model is register else "POST"
    called, body = time.monotonic(), subject.body(value)
    if insists:
        key = f"{subject.path}-{value}"
        answer = await client.send(
            method, subject.path, body, key=key, seconds_max=INSISTING_SECONDS_MAX
        )
    else:
        answer = await asked_once(client, method, subject.path, body)
    returned = time.monotonic() if answer.ok else UNKNOWN
    assert answer.ok or answer.status == 0 or answer.status >= 500, answer
    subject.history.append(Operation(subject.kind, value, called, returned))


async def asked_once(client: Client, method: str, path: str, body: object = None) -> Answer:
    """The answer to one attempt; an empty one if it got lost."""
    content = b"" if body is None else json.dumps(body).encode()
    try:
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            return await client.once(method, path, content)
    except (OSError, EOFError, ValueError, TimeoutError):
        return NO_ANSWER


async def check(subject: Subject, verdict: Verdict, counted: dict[str, float]) -> None:
    """Judge one history, and keep it if it is wrong."""
    history = subject.history
    counted["histories"] += 1
    counted["operations"] += len(history)
    counted["unknown_outcomes"] += sum(not operation.certain for operation in history)
    if not await asyncio.to_thread(linearizable, history, subject.model, subject.initial):
        name = f"heeler-history-{subject.path.strip('/').replace('/', '-')}.json"
        kept = Path(tempfile.gettempdir(), name)
        text = json.dumps([asdict(event) for event in history], indent=1)
        await asyncio.to_thread(kept.write_text, text)
        verdict.wrong.append(f"{subject.path} is not linearizable: see {kept}")
