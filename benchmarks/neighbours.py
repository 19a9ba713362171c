"""python -m benchmarks.neighbours: what a client waits while others ask for much, or mean harm.

A client says one message after the other, first alone, then while each load is under way. Prints
the ratio of its median and of its p99, and how the requests of the load ended. It must stay within
10 times its quiet median, and no request may be left without a clear answer.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import httpx

from benchmarks.agents import RunFailed
from benchmarks.instance import Subject, own_instance, running_server
from benchmarks.measure import percentile
from benchmarks.neighbour_loads import (
    Asked,
    Load,
    created,
    heavy_loads,
    hostile_loads,
    long_agent,
    said,
    words,
)

RATIO_MAX = 10.0
QUIET_SECONDS = 10.0
LOAD_SECONDS_MAX = 240.0
MESSAGES = 2_500
# After so many messages another agent is asked, whose window is short again.
MESSAGES_PER_AGENT = 40
# A load that is over sooner is sent again, so that there are some messages beside it.
LOAD_SECONDS_MIN = 4.0


@dataclass(frozen=True, slots=True)
class Waits:
    """What one client waited for its answers, in milliseconds."""

    ascending: Sequence[float]

    @property
    def median(self) -> float:
        """Half of the answers took no longer."""
        return percentile([*self.ascending], 50)

    @property
    def p99(self) -> float:
        """One answer of a hundred took longer."""
        return percentile([*self.ascending], 99)


class Client:
    """Says one message after the other, to agents of its own."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http
        self.agent_id = ""
        self.said = 0

    async def waits_during(self, work: Awaitable[object]) -> Waits:
        """What it waits for each answer until some work is done."""
        working = asyncio.ensure_future(work)
        taken: list[float] = []
        while not working.done():
            taken.append(await self.say() * 1_000)
        await working
        return Waits(sorted(taken))

    async def say(self) -> float:
        """Say a message; returns how many seconds the answer took. Raises HTTPStatusError."""
        if self.said % MESSAGES_PER_AGENT == 0:
            self.agent_id = await created(self.http, name="neighbour")
            await said(self.agent_id, "warm").send(self.http)
        self.said += 1
        began = time.perf_counter()
        answer = await said(self.agent_id, "hello").send(self.http)
        took = time.perf_counter() - began
        answer.raise_for_status()
        return took


@dataclass(slots=True)
class Outcomes:
    """How the requests of a load ended, and how long the last of them took in seconds."""

    ends: Counter[str]
    seconds: float = 0.0

    @property
    def are_clear(self) -> bool:
        """Whether each request was answered, by what it asked for or by what is wrong with it."""
        return not any(end.startswith(("5", "no answer")) for end in self.ends)

    @property
    def are_well(self) -> bool:
        """Whether each request got what it asked for."""
        return all(end.startswith("2") for end in self.ends)


async def put(load: Load, http: httpx.AsyncClient) -> Outcomes:
    """Send a load, and again where it is over soon."""
    found = Outcomes(Counter())
    began = time.perf_counter()

    async def end_of(asked: Asked) -> None:
        try:
            async with asyncio.timeout(LOAD_SECONDS_MAX):
                found.ends[words(await asked.send(http))] += 1
        except (TimeoutError, httpx.HTTPError) as problem:
            found.ends[f"no answer: {type(problem).__name__}"] += 1

    while True:
        await asyncio.gather(*map(end_of, load.asked))
        found.seconds = found.seconds or time.perf_counter() - began
        if time.perf_counter() - began >= LOAD_SECONDS_MIN:
            return found


async def measure(
    load: Load, client: Client, http: httpx.AsyncClient, quiet: Waits, subject: Subject
) -> bool:
    """Measure one load, print its row, and return whether all that must hold did."""
    if subject.meter is not None:
        await subject.meter.wait_quiet()
    before = sum(subject.meter.read().values()) if subject.meter else 0.0
    putting = asyncio.ensure_future(put(load, http))
    waits = await client.waits_during(putting)
    outcomes = putting.result()
    used = sum(subject.meter.read().values()) - before if subject.meter else 0.0
    ratio = waits.median / quiet.median
    ended = outcomes.are_clear if load.hostile else outcomes.are_well
    verdict = "PASS" if ratio <= RATIO_MAX and ended else "MISS"
    figures = (
        f"{waits.median:9.1f}{ratio:8.1f}x{waits.p99:9.0f}{waits.p99 / quiet.p99:8.1f}x"
        f"{len(waits.ascending):6}{outcomes.seconds:8.1f}{used:8.1f}"
    )
    ends = "; ".join(f"{count} x {end}" for end, count in sorted(outcomes.ends.items()))
    print(f"{load.name:<18}{figures}  {verdict}  {ends}", flush=True)
    return verdict == "PASS"


async def run(options: argparse.Namespace) -> bool:
    """Measure all loads; whether every row passes."""
    async with AsyncExitStack() as stack:
        url = options.base_url
        server = running_server(url, options.pid) if url else own_instance()
        subject = await stack.enter_async_context(server)
        origin = subject.origin
        base_url = (
            f"{'https' if origin.tls else 'http'}://{origin.host}:{origin.port}{origin.prefix}"
        )
        key = os.environ.get("LETTA_API_KEY", "")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        limits = httpx.Limits(max_connections=200)
        many = httpx.AsyncClient(
            base_url=base_url, headers=headers, timeout=LOAD_SECONDS_MAX, limits=limits
        )
        http = await stack.enter_async_context(many)
        alone = httpx.AsyncClient(base_url=base_url, headers=headers, timeout=LOAD_SECONDS_MAX)
        client = Client(await stack.enter_async_context(alone))
        agent_id = options.agent or await long_agent(http, options.messages)
        loads = [*await hostile_loads(http), *await heavy_loads(http, agent_id)]
        if subject.meter is not None:
            await subject.meter.wait_quiet()
        quiet = await client.waits_during(asyncio.sleep(options.quiet_seconds))
        print(
            f"{subject.name}: quiet median {quiet.median:.1f} ms, p99 {quiet.p99:.0f} ms\n\n"
            f"{'load':<18}{'median ms':>9}{'ratio':>9}{'p99 ms':>9}{'ratio':>9}"
            f"{'said':>6}{'s':>8}{'CPU s':>8}",
            flush=True,
        )
        chosen = [load for load in loads if not options.load or load.name in options.load]
        return all([await measure(load, client, http, quiet, subject) for load in chosen])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.neighbours", description=__doc__)
    parser.add_argument("--base-url", help="of a server that runs already")
    parser.add_argument("--pid", type=int, action="append", default=[], help="of that server")
    parser.add_argument("--agent", help="of a long history that is there already")
    parser.add_argument("--messages", type=int, default=MESSAGES, help="of the long history")
    parser.add_argument("--load", action="append", help="only the load of this name")
    parser.add_argument("--quiet-seconds", type=float, default=QUIET_SECONDS)
    options = parser.parse_args()
    try:
        return 0 if asyncio.run(run(options)) else 1
    except RunFailed as problem:
        print(problem, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
