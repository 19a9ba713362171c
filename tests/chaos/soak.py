"""R36: mixed load for as long as one likes, with kills, hang-ups and bad input; what the server
uses at the end is what it used at the beginning.

The load is the same at every moment: agents are created, used and deleted. Both measurements are
taken at rest, after some minutes of load in which nothing was killed, and after the connections to
Postgres were renewed and the same few things done with them.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import httpx
import psutil

from deploy import container_health
from libs.contracts.service_registry import events_stream, names
from libs.contracts.stream_definitions import COMMANDS_STREAM
from libs.eventstore.backlog_counts import RELAY_LAG
from tests.chaos.client import GIVE_UP_SECONDS, Answer, Client
from tests.chaos.dose import Dose
from tests.chaos.hostile_clients import BEGINNINGS
from tests.chaos.oracle import Verdict
from tests.chaos.workload import EMBEDDING, MODEL
from tests.chaos.world import PARTS, SERVICES, World
from tests.fuzz.corpus import operations, recorded, things
from tests.fuzz.fuzzer import Report, ask_all
from tests.waiting import wait_for

FIRST_SHARE = 1 / 6  # of the time: load without kills, before the first measurement
KILLS_SHARE = 1 / 2  # then load with kills, and without them for the rest
KILL_SECONDS = (5.0, 40.0)  # between two, with a short and with a long soak
JUDGED_SECONDS_MIN = 600
TURNS_OF_AN_AGENT = 20
PAUSE_SECONDS_MAX = 0.4
BAD_REQUESTS_OF_A_ROUND = 200
HALF_SENT_CONNECTIONS = 40
HALF_SENT_SECONDS = 5.0
RUN_SECONDS_MAX = 90.0
REST_SECONDS_MAX = 120.0
STREAM_STATES = "$SYS.REQ.SERVER.PING.JSZ"
CLIENTS_BEFORE_REST = 4
NAME = "soak-"  # how the names of the clients' agents begin
LABEL = "ledger"  # of their blocks
# What may be more at the end: allocators keep a little, and pools open connections when needed.
MEMORY_GROWTH_MAX = 1.05
MEMORY_GROWTH_MB_MAX = 8.0
SHORT_GROWTH_MB_MAX = 96.0  # caches fill in the first minutes, and Postgres touches its buffers
DESCRIPTORS_MORE_MAX = 10
CONNECTIONS_MORE_MAX = 4
# The events are kept, for a week at most, and NATS has an index of them in memory.
INDEX_OF_AN_EVENT_BYTES = 300
# A connection more is a process of Postgres more, with a hundred files: judged by connection.
BY_CONNECTION = "postgres"
EVENTS = " + ".join(f"(select count(*) from {name}.events)" for name in names())
UNPUBLISHED = " + ".join(f"({RELAY_LAG.format(schema=name)})" for name in names())
REST_SECONDS = 2.0  # the api looks after its connections once a second


@dataclass(frozen=True, slots=True)
class Usage:
    """What the server uses at rest."""

    memory_mb: dict[str, float]  # its own, not shared, of each part with its children
    descriptors: dict[str, int]
    stream_messages: dict[str, int]
    stream_bytes: dict[str, int]
    unacknowledged: int  # commands that a service has and has not answered, or that wait for one
    events: int  # of all services, in Postgres
    unpublished: int  # events that are in Postgres and not on the bus yet
    connections: int  # of Postgres
    agents: int


@dataclass(slots=True)
class Soak:
    """The clients of one soak, and what they saw."""

    world: World
    verdict: Verdict
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    done: Counter[str] = field(default_factory=Counter)
    bad: Report = field(default_factory=lambda: Report(GIVE_UP_SECONDS))
    names: Any = field(default_factory=lambda: itertools.count(1))

    @asynccontextmanager
    async def load(self, clients: int) -> AsyncIterator[None]:
        """So many clients and their hostile neighbours; at the end all have finished."""
        self.stop.clear()
        rolls = self.world.random
        working = [
            *(self.use_agents(random.Random(rolls.random())) for _ in range(clients)),
            self.send_bad_input(),
            self.send_half_requests(),
        ]
        async with asyncio.TaskGroup() as group:
            for task in working:
                group.create_task(task)
            yield
            self.stop.set()

    # -- clients

    async def use_agents(self, rolls: random.Random) -> None:
        """Create an agent, use it in every way, see that all is there, delete it; and again."""
        while not self.stop.is_set():
            agent = UsedAgent(self, self.world.client(), f"{NAME}{next(self.names)}", rolls)
            try:
                await agent.live()
            except Exception as problem:  # the soak goes on, whatever it is
                said = f"{agent.name} ({agent.id}): {type(problem).__name__}: {problem}"
                print(said, flush=True)
                self.verdict.wrong.append(said)

    async def send_bad_input(self) -> None:
        """Ask what makes little sense. While parts are killed, a 503 is a good answer."""
        base_url = self.world.heeler.base_url
        for seed in itertools.count(1):
            if self.stop.is_set():
                return
            try:
                ids = await things(base_url)
                valid = operations(ids) + recorded(ids)
                numbers = iter(range(BAD_REQUESTS_OF_A_ROUND))
                asking = ask_all(base_url, seed, numbers, valid, [*ids.values()], self.bad)
                await asyncio.wait(
                    [asyncio.ensure_future(asking), asyncio.ensure_future(self.stop.wait())],
                    return_when=asyncio.FIRST_COMPLETED,
                )
                await self.delete_what_bad_input_made()
            except (AssertionError, httpx.HTTPError, OSError, EOFError):
                await asyncio.sleep(1.0)

    async def delete_what_bad_input_made(self) -> None:
        """Some of it is good: without this there would be more agents and blocks all the time."""
        client = self.world.client()
        kept = {"/v1/agents": ("name", NAME), "/v1/blocks": ("label", LABEL)}
        for path, (field_name, beginning) in kept.items():
            for item in await client.get(f"{path}?limit=200"):
                if not str(item[field_name]).startswith(beginning):
                    await client.send("DELETE", f"{path}/{item['id']}")

    async def send_half_requests(self) -> None:
        """Open connections, and leave them in the middle of a request."""
        host, port = "127.0.0.1", self.world.heeler.port
        while not self.stop.is_set():
            writers: list[asyncio.StreamWriter] = []
            for number in range(HALF_SENT_CONNECTIONS):
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection(host, port)
                    writer.write(BEGINNINGS[number % len(BEGINNINGS)])
                    writers.append(writer)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stop.wait(), HALF_SENT_SECONDS)
            for writer in writers:
                writer.transport.abort()
            self.done["half_sent"] += len(writers)

    async def kill(self, seconds: float, pause: float) -> None:
        """Kill a random part now and then; the last of them is well again at the end."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            await asyncio.sleep(min(pause, max(0.0, ends - time.monotonic())))
            await self.world.kill9(self.world.random.choice([*SERVICES, *PARTS]))
        await self.world.healthy()

    # -- measurements

    async def at_rest(self, when: str) -> Usage:
        """What is used once nothing is left to do; raises if that does not come."""
        await self.renew_connections()
        usage = await wait_for(f"rest {when}", self.usage_at_rest, REST_SECONDS_MAX)
        self.verdict.figures |= {
            **{f"{part}_memory_mb_{when}": value for part, value in usage.memory_mb.items()},
            **{f"{part}_descriptors_{when}": value for part, value in usage.descriptors.items()},
            **{f"{name}_messages_{when}": n for name, n in usage.stream_messages.items()},
            **{f"{name}_bytes_{when}": n for name, n in usage.stream_bytes.items()},
            f"unacknowledged_{when}": usage.unacknowledged,
            f"postgres_connections_{when}": usage.connections,
            f"agents_{when}": usage.agents,
        }
        return usage

    async def renew_connections(self) -> None:
        """End every connection to Postgres and do the same few things as each time: what a
        connection has learnt of tables and statements it keeps until it ends."""
        await self.world.sql(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity"
            " where backend_type = 'client backend' and pid <> pg_backend_pid()"
        )
        self.stop.clear()
        async with asyncio.TaskGroup() as group:
            for seed in range(CLIENTS_BEFORE_REST):
                name = f"{NAME}{next(self.names)}"
                agent = UsedAgent(self, self.world.client(), name, random.Random(seed))
                group.create_task(agent.live())

    async def usage_at_rest(self) -> Usage | None:
        """What is used, if nothing was left to do and nothing was done for a moment: what follows
        from an event (the end of a group, say) is still to come when no command waits."""
        if await self.world.client().get("/v1/runs/active?limit=1"):
            return None
        before = await self.usage()
        await asyncio.sleep(REST_SECONDS)
        after = await self.usage()
        waits = after.unacknowledged or after.unpublished
        moved = (before.events, before.stream_messages) != (after.events, after.stream_messages)
        return None if waits or moved else after

    async def usage(self) -> Usage:
        """What is used now."""
        streams = await asyncio.to_thread(self.streams)
        rows = await self.world.sql(
            f"select {EVENTS}, {UNPUBLISHED},"
            " (select count(*) from pg_stat_activity where backend_type = 'client backend'),"
            " (select count(*) from agent.agents)"
        )
        memory, descriptors = await asyncio.to_thread(self.processes)
        return Usage(
            memory,
            descriptors,
            {stream["name"]: stream["state"]["messages"] for stream in streams},
            {stream["name"]: stream["state"]["bytes"] for stream in streams},
            sum(
                consumer["num_ack_pending"] + consumer["num_pending"]
                for stream in streams
                if stream["name"] == COMMANDS_STREAM
                for consumer in stream.get("consumer_detail", [])
            ),
            *(int(figure) for figure in rows[0]),
        )

    def processes(self) -> tuple[dict[str, float], dict[str, int]]:
        """Memory and descriptors of each part."""
        memory: dict[str, float] = {}
        descriptors: dict[str, int] = {}
        for part in (*self.world.services, "nats", "postgres"):
            first = self.world.running(part)
            assert first, f"{part} runs"
            memory[part], descriptors[part] = 0.0, 0
            for process in (first, *first.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess):
                    memory[part] += process.memory_full_info().uss / 1e6
                    descriptors[part] += process.num_fds()
        return memory, descriptors

    def streams(self) -> list[dict[str, Any]]:
        """NATS' own list of its streams."""
        wanted = json.dumps({"accounts": True, "streams": True, "consumer": True})
        [answer] = islice(
            container_health.answers(self.world.heeler.nats_system_url, STREAM_STATES, wanted), 1
        )
        return [
            stream
            for account in answer["data"]["account_details"]
            for stream in account.get("stream_detail", [])
        ]


@dataclass(slots=True)
class UsedAgent:
    """An agent, and what was asked of it."""

    soak: Soak
    client: Client
    name: str
    rolls: random.Random
    id: str = ""
    block: str = ""
    texts: list[str] = field(default_factory=list)
    numbers: Any = field(default_factory=lambda: itertools.count(1))

    async def live(self) -> None:
        """All of its life."""
        await self.create()
        for _ in range(TURNS_OF_AN_AGENT):
            if self.soak.stop.is_set():
                break
            await self.turn()
            await asyncio.sleep(self.rolls.uniform(0.0, PAUSE_SECONDS_MAX))
        await self.check()
        await self.delete()

    async def create(self) -> None:
        """Create it."""
        body = {
            "name": self.name,
            "model": MODEL,
            "embedding": EMBEDDING,
            "include_base_tools": False,
            "tools": ["memory_insert"],
            "memory_blocks": [{"label": LABEL, "value": ""}],
        }
        agent = (await self.ask("POST", "/v1/agents", body, key=f"create-{self.name}")).json()
        self.id, self.block = agent["id"], agent["blocks"][0]["id"]

    async def turn(self) -> None:
        """Do one of the things that clients do."""
        kinds: dict[Callable[[], Awaitable[None]], int] = {
            self.message: 10,
            self.message_with_tool: 3,
            self.stream_and_hang_up: 3,
            self.message_in_background: 3,
            self.write: 3,
            self.read: 3,
        }
        [kind] = self.rolls.choices([*kinds], [*kinds.values()])
        await kind()
        self.soak.done[kind.__name__] += 1

    async def message(self, script: str = "") -> None:
        """Send a message and read the answer."""
        text, said = self.said(script)
        answer = await self.ask(
            "POST", f"/v1/agents/{self.id}/messages", sending(text), key=f"key-{said}"
        )
        told = [message.get("content") for message in answer.json()["messages"]]
        self.soak.verdict.check(said in told, f"{said!r} was answered {told}")

    async def message_with_tool(self) -> None:
        """Let it call a tool."""
        arguments = json.dumps({"label": LABEL, "new_string": f"line {next(self.numbers)}."})
        await self.message(f"CALL:memory_insert:{arguments} ")

    async def stream_and_hang_up(self) -> None:
        """Ask for a stream and leave after its first bytes. If none came, nobody knows whether
        the run was begun, so it is asked for again."""
        text, said = self.said()
        path = f"/v1/agents/{self.id}/messages/stream"
        content = json.dumps({**sending(text), "stream_tokens": True}).encode()
        for _ in range(int(GIVE_UP_SECONDS)):
            with contextlib.suppress(OSError, EOFError, TimeoutError, ValueError):
                if await begin_stream(self.client, path, content, f"key-{said}"):
                    return
            await asyncio.sleep(1.0)
        self.soak.verdict.stuck.append(f"no stream began for {said}")

    async def message_in_background(self) -> None:
        """Begin a run and wait for its end."""
        text, said = self.said()
        path = f"/v1/agents/{self.id}/messages/async"
        run = (await self.ask("POST", path, sending(text), key=f"key-{said}")).json()["id"]

        async def ended() -> bool:
            found = await self.client.get(f"/v1/runs/{run}")
            return found["status"] in ("completed", "failed")

        await wait_for(f"{run} ends", ended, RUN_SECONDS_MAX)

    async def write(self) -> None:
        """Change the agent and its block."""
        number = next(self.numbers)
        await self.ask("PATCH", f"/v1/agents/{self.id}", {"description": f"changed {number}"})
        changed = await self.ask("PATCH", f"/v1/blocks/{self.block}", {"value": f"value {number}"})
        self.soak.verdict.check(
            changed.json()["value"] == f"value {number}", f"{self.block} was not changed"
        )

    async def read(self) -> None:
        """Read it, its history and a list."""
        for path in (f"/v1/agents/{self.id}", f"/v1/agents/{self.id}/messages?limit=50"):
            await self.client.get(path)
        await self.client.get("/v1/agents?limit=20")

    async def check(self) -> None:
        """Every message is in the history once."""
        await wait_for(f"the runs of {self.id} end", self.is_idle, RUN_SECONDS_MAX)
        history = await self.client.get(f"/v1/agents/{self.id}/messages?limit=1000")
        found = Counter(
            message["content"] for message in history if message["message_type"] == "user_message"
        )
        for text in self.texts:
            if not found[text]:
                self.soak.verdict.lost.append(f"{self.id}: {text!r}")
            elif found[text] > 1:
                self.soak.verdict.doubled.append(f"{self.id}: {text!r}")
        self.soak.verdict.messages += len(self.texts)

    async def is_idle(self) -> bool:
        return not await self.client.get(f"/v1/runs?active=true&agent_id={self.id}&limit=1")

    async def delete(self) -> None:
        """Delete it. Who asks again may find it deleted by the first attempt."""
        answer = await self.client.send("DELETE", f"/v1/agents/{self.id}")
        said = f"deleting {self.id}: {answer.status} {answer.body[:200]!r}"
        self.soak.verdict.check(answer.ok or answer.status == 404, said)

    def said(self, script: str = "") -> tuple[str, str]:
        """A new message and what the answer to it is."""
        said = f"answer {next(self.numbers)} of {self.name}"
        self.texts.append(f"{script}SAY:{said}")
        return self.texts[-1], said

    async def ask(self, method: str, path: str, body: Any, key: str | None = None) -> Answer:
        """The answer, however long the server is away."""
        answer = await self.client.send(method, path, body, key=key)
        assert answer.ok, f"{method} {path}: {answer.status} {answer.body[:300]!r}"
        return answer


def sending(text: str) -> dict[str, Any]:
    """The body of a message request."""
    return {"messages": [{"role": "user", "content": text}]}


async def begin_stream(client: Client, path: str, content: bytes, key: str) -> bool:
    """Ask for a stream and hang up once it has begun."""
    async with asyncio.timeout(30.0):
        reader, writer = await asyncio.open_connection(client.host, client.port)
        try:
            lines = [
                f"POST {path} HTTP/1.1",
                f"host: {client.host}:{client.port}",
                "content-type: application/json",
                f"content-length: {len(content)}",
                f"idempotency-key: {key}",
            ]
            writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + content)
            head = await reader.readuntil(b"\r\n\r\n")
            return head.split(b" ", 2)[1] == b"200" and bool(await reader.read(1))
        finally:
            writer.transport.abort()


async def r36_soak(world: World, dose: Dose) -> Verdict:
    """Everything at once, for `faults` seconds."""
    await world.restored()
    verdict = Verdict("R36")
    soak = Soak(world, verdict)
    first_kill, long = len(world.kills), dose.faults >= JUDGED_SECONDS_MIN
    async with soak.load(dose.agents):
        await asyncio.sleep(FIRST_SHARE * dose.faults)
    begin = await soak.at_rest("begin")
    async with soak.load(dose.agents):
        await soak.kill(KILLS_SHARE * dose.faults, KILL_SECONDS[long])
        await asyncio.sleep((1 - FIRST_SHARE - KILLS_SHARE) * dose.faults)
    end = await soak.at_rest("end")
    verdict.kills = len(world.kills) - first_kill
    verdict.figures |= {f"{name}_done": times for name, times in sorted(soak.done.items())}
    verdict.figures["bad_requests"] = soak.bad.statuses.total()
    for finding in soak.bad.findings:
        if finding.answer.status == 500 or finding.why == "says what is inside":
            verdict.wrong.append(str(finding))
    judge(verdict, begin, end, long=long)
    return verdict


def judge(verdict: Verdict, begin: Usage, end: Usage, *, long: bool) -> None:
    """Nothing is more at the end, except the events: each is there once. A short soak is too short
    to say anything of descriptors, since Postgres opens its files bit by bit, and of memory it sees
    what leaks fast."""
    verdict.check(not end.unacknowledged, f"{end.unacknowledged} commands were never answered")
    for stream, messages in end.stream_messages.items():
        more = messages - begin.stream_messages.get(stream, 0)
        if not stream.startswith(events_stream("")):
            verdict.check(more <= 0, f"{stream} holds {more} messages more")
    more = sum(
        messages - begin.stream_messages[stream]
        for stream, messages in end.stream_messages.items()
        if stream.startswith(events_stream(""))
    )
    events = end.events - begin.events
    verdict.check(more == events, f"{events} events were stored, {more} published")
    more = end.connections - begin.connections
    verdict.check(more <= CONNECTIONS_MORE_MAX or not long, f"{more} connections to Postgres more")
    for part, number in end.descriptors.items():
        most = before_by_connection(part, begin.descriptors[part], begin, end)
        most += DESCRIPTORS_MORE_MAX
        verdict.check(number <= most or not long, f"{part} has {number} of {most:.0f} descriptors")
    for part, size in end.memory_mb.items():
        before = before_by_connection(part, begin.memory_mb[part], begin, end)
        most = max(before * MEMORY_GROWTH_MAX, before + MEMORY_GROWTH_MB_MAX)
        if not long:
            most = before + SHORT_GROWTH_MB_MAX
        if part == "nats":
            most += events * INDEX_OF_AN_EVENT_BYTES / 1e6
        verdict.check(size <= most, f"{part} grew from {before:.0f} to {size:.0f} MB")


def before_by_connection(part: str, used: float, begin: Usage, end: Usage) -> float:
    """What a part used at the beginning; Postgres, as if it had had as many connections then."""
    return used * end.connections / begin.connections if part == BY_CONNECTION else used
