"""python -m benchmarks.rebuild: rebuild the read models of a Heeler of our own, also under load.

Makes agents and sends them messages by the API. Then, at rest, every read model is emptied and
rebuilt: each row must be as before, byte by byte. Then every row is made wrong, in columns that no
request is answered from, and rebuilt while clients send messages, read, list, create and delete: no
request may fail. When the clients have stopped, the rows must be what an emptied read model is
rebuilt to. Exit code 1 where one of these does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import psutil
import psycopg
import uvloop

from benchmarks.agents import Agents, RunFailed
from benchmarks.client import Connection, Origin
from benchmarks.driver import Options
from benchmarks.rows import MESSAGE
from deploy.rebuild import owners, read_models, rebuild, summary
from libs.eventstore.read_model_rebuild import Rebuilt
from tests.scripted_model import ScriptedModelProcess
from tests.servers import HeelerInstance

CLIENTS = 6
AGENT_ID = re.compile(r"agent-[0-9a-f-]+")
# Of CPU, the client's and Postgres' together: on a machine that has a core for it, of time.
EVENTS_PER_SECOND_MIN = 5_000
# A row of a run that is going on is written by it still.
REST_SECONDS_MAX = 30.0
# What no answer to a client, and no decision, is made from.
WRONG = {
    "agent": {
        "agents": "updated_at = updated_at + interval '1 s'",
        "messages": "text = text || 'x'",
        "runs": "request_hash = request_hash || 'x'",
    },
    "memory": {"blocks": "created_at = created_at + interval '1 s'"},
}


@dataclass(slots=True)
class Load:
    """What the clients did, and what failed."""

    answers: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    slowest_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Server:
    """The instance that is measured."""

    origin: Origin
    database_url: str
    postgres_pid: int

    def cpu_seconds(self) -> float:
        """What this process and Postgres with all its sessions, ended ones too, have used."""
        postgres = psutil.Process(self.postgres_pid)
        used: float = sum(psutil.Process().cpu_times()[:2])
        for session in postgres.children():
            with suppress(psutil.NoSuchProcess):  # its time is the server's then
                used += sum(session.cpu_times()[:2])
        used += sum(postgres.cpu_times()[:4])
        return used


@asynccontextmanager
async def server() -> AsyncIterator[Server]:
    """A Heeler of our own with a scripted model."""
    async with ScriptedModelProcess() as model:
        given = {"OPENAI_API_BASE": model.base_url, "OPENAI_API_KEY": "sk-benchmark"}
        instance = HeelerInstance(env=given)
        try:
            await asyncio.to_thread(instance.up)
            origin = Origin.of(instance.base_url)
            yield Server(origin, instance.database_url, instance.pid("postgres"))
        finally:
            await asyncio.to_thread(instance.close)


def tables() -> Iterator[tuple[str, str, str]]:
    """Every read model: its service, its table and the columns of its key."""
    for service in owners():
        for table in read_models(service).tables:
            yield service, table.name, ", ".join(table.key)


def dumps(url: str) -> dict[str, tuple[int, str]]:
    """How many rows each read model has, and a digest of all their columns in the order of keys."""
    found: dict[str, tuple[int, str]] = {}
    with psycopg.connect(url, autocommit=True) as connection:
        for service, table, key in tables():
            row = connection.execute(
                "select count(*), coalesce(md5(string_agg(md5(t::text), '' order by"
                f" {key})), '') from {service}.{table} t".encode()
            ).fetchone()
            assert row is not None
            found[f"{service}.{table}"] = (row[0], row[1])
    return found


def execute(url: str, statements: list[str]) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def rebuild_all(url: str, *, only_compare: bool = False) -> list[Rebuilt]:
    """Rebuild every service's read models."""
    found: list[Rebuilt] = []
    for service in owners():
        found.append(rebuild(url, service, only_compare=only_compare))
        print(f"  {summary(service, found[-1], only_compare=only_compare)}", flush=True)
    return found


async def client(
    server: Server, agents: Agents, number: int, load: Load, goes_on: Callable[[], bool]
) -> None:
    """Sends messages, reads and lists, creates and deletes, one request after the other."""
    connection = Connection(server.origin)

    async def ask(method: str, path: str, body: object = None) -> bytes:
        response = await connection.request(server.origin.request(method, path, body))
        load.answers[f"{method} {AGENT_ID.sub('{id}', path)}"] += 1
        load.slowest_seconds = max(load.slowest_seconds, response.seconds)
        if response.status not in (200, 201, 204):
            text = response.body[:200].decode(errors="replace")
            load.failures.append(f"{method} {path}: {response.status} {text}")
        return response.body

    made = json.loads(agents.create_request.partition(b"\r\n\r\n")[2])
    for turn in itertools.count(number):
        if not goes_on():
            break
        agent_id = agents.made[(turn * 37) % len(agents.made)]
        try:
            await ask("POST", f"/v1/agents/{agent_id}/messages", MESSAGE)
            await ask("GET", f"/v1/agents/{agent_id}")
            seen = json.loads(await ask("GET", f"/v1/agents/{agent_id}/messages?limit=5"))
            if len(seen) != 5:
                load.failures.append(f"{agent_id} has {len(seen)} of 5 messages")
            await ask("GET", "/v1/agents/?limit=10")
            fresh = json.loads(await ask("POST", "/v1/agents/", made))["id"]
            await ask("POST", f"/v1/agents/{fresh}/messages", MESSAGE)
            await ask("DELETE", f"/v1/agents/{fresh}")
        except (OSError, KeyError, ValueError) as problem:
            load.failures.append(repr(problem))
    connection.close()


async def under_load(server: Server, agents: Agents, seconds: float) -> tuple[Load, list[Rebuilt]]:
    """Make every row wrong and rebuild, again and again for so long, while clients ask."""
    load, going, rounds = Load(), True, list[Rebuilt]()
    clients = [
        asyncio.create_task(client(server, agents, number * 101, load, lambda: going))
        for number in range(CLIENTS)
    ]
    began = time.monotonic()
    wrong = [
        f"update {service}.{table} set {fields}"
        for service, each in WRONG.items()
        for table, fields in each.items()
    ]
    try:
        while not rounds or time.monotonic() - began < seconds:
            await asyncio.to_thread(execute, server.database_url, wrong)
            done = await asyncio.to_thread(rebuild_all, server.database_url)
            rounds += done
    finally:
        going = False
        await asyncio.gather(*clients)
    return load, rounds


async def at_rest(url: str) -> None:
    """Return when no run goes on."""
    active = b"select count(*) from agent.runs where status in ('created', 'running')"
    until = time.monotonic() + REST_SECONDS_MAX
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute(active).fetchone() != (0,):
            if time.monotonic() > until:
                raise RunFailed(f"runs go on after {REST_SECONDS_MAX:.0f} s")
            await asyncio.sleep(0.1)


async def emptied(heeler: Server, what: str) -> tuple[bool, float]:
    """Empty every read model and rebuild it: whether each is as before, and how many events that
    were for each second of CPU, of Postgres' too."""
    url = heeler.database_url
    await at_rest(url)
    before = dumps(url)
    names = ", ".join(f"{service}.{table}" for service, table, _ in tables())
    await asyncio.to_thread(execute, url, [f"truncate {names}"])
    print(f"{what}: emptied and rebuilt", flush=True)
    cpu = heeler.cpu_seconds()
    done = await asyncio.to_thread(rebuild_all, url)
    cpu = heeler.cpu_seconds() - cpu
    after = dumps(url)
    for name, (rows, digest) in before.items():
        same = "byte-equal" if after[name] == (rows, digest) else f"DIFFERENT: {after[name]}"
        print(f"  {name}: {rows:,} rows, {same}")
    events = sum(rebuilt.events for rebuilt in done)
    seconds = sum(rebuilt.seconds for rebuilt in done)
    speed = f"{events / seconds:,.0f} per second, {events / cpu:,.0f} per CPU second"
    print(f"  {events:,} events, {speed}", flush=True)
    return before == after, events / cpu


async def measure(agent_count: int, message_count: int, seconds: float) -> bool:
    """All of it; whether everything holds."""
    async with server() as heeler:
        options = Options()
        agents = Agents(heeler.origin, model=options.model, embedding=options.embedding)
        began = time.monotonic()
        await agents.have(agent_count)
        # A message and its answer are two.
        receivers = itertools.islice(itertools.cycle(agents.made), message_count // 2)
        sends = [f"/v1/agents/{each}/messages" for each in receivers]
        await agents.call(heeler.origin.request("POST", path, MESSAGE) for path in sends)
        took = time.monotonic() - began
        print(
            f"{agent_count:,} agents and {message_count:,} messages by the API in {took:.0f} s",
            flush=True,
        )
        url = heeler.database_url
        first_equal, per_cpu_second = await emptied(heeler, "at rest")
        print("under load: every row made wrong, and rebuilt", flush=True)
        load, rounds = await under_load(heeler, agents, seconds)
        await at_rest(url)
        print("after the load: compared with what the events say", flush=True)
        left = sum(rebuild.changed.total() for rebuild in rebuild_all(url, only_compare=True))
        last_equal, _ = await emptied(heeler, "after the load")
    locked = max(round_.lock_seconds_max for round_ in rounds)
    changed = sum(round_.changed.total() for round_ in rounds)
    print(
        f"{load.answers.total():,} requests while {changed:,} rows were rebuilt,"
        f" {len(load.failures)} failed; the slowest took {load.slowest_seconds:.2f} s, writers"
        f" waited for a lock {locked:.2f} s at most"
    )
    for name, count in sorted(load.answers.items()):
        print(f"  {name}: {count:,}")
    for failure in load.failures[:10]:
        print(f"  FAILED {failure}")
    fast = per_cpu_second >= EVENTS_PER_SECOND_MIN
    verdict = "ok" if fast else "MISSED"
    print(
        f"{per_cpu_second:,.0f} events per CPU second, {EVENTS_PER_SECOND_MIN:,} wanted: {verdict}"
    )
    return first_equal and last_equal and not left and not load.failures and fast


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rebuild", description=__doc__)
    parser.add_argument("--agents", type=int, default=1_000)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=20.0, help="of load, at least")
    given = parser.parse_args()
    try:
        return 0 if uvloop.run(measure(given.agents, given.messages, given.seconds)) else 1
    except (RunFailed, AssertionError) as problem:
        print(f"python -m benchmarks.rebuild: {problem}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
