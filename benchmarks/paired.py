"""python -m benchmarks.paired CHECKOUT: this checkout beside another one of the same project.

Both servers run at the same time, and each in turn is asked for a moment, over and over. What slows
the machine down for a while then slows both, so their ratio means something where single figures do
not. The other checkout needs its own `.venv`: run `deploy/bootstrap.sh` there once.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import uvloop

from benchmarks.agents import Agents
from benchmarks.client import Connection, Origin
from benchmarks.cpu import CpuMeter
from benchmarks.driver import Options
from benchmarks.measure import drive
from benchmarks.rows import Get, Kind, List, Message, Operate, Stream
from deploy.embedded.settings import CHECKOUT
from tests.scripted_model import ScriptedModelProcess
from tests.servers import HeelerInstance

KINDS: dict[str, type[Get | List | Message | Stream]] = {
    "get": Get,
    "list": List,
    "message": Message,
    "stream": Stream,
}
ROWS = ("get-1", "list-1", "message-1", "message-8", "stream-1")
ROUNDS = 60
SECONDS = 0.4
WARM_UP_SECONDS = 2.0
SETTLE_SECONDS = 0.05  # for what goes on after an answer
OPERATIONS_A_SECOND_MAX = 250  # of those that use agents up


@dataclass
class Side:
    """One of the two servers, and what it showed in the row that is measured."""

    origin: Origin
    meter: CpuMeter
    team: list[tuple[Operate, Connection]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: float = 0.0

    @property
    def cpu_ms(self) -> float:
        """CPU for each operation, of all processes of the server."""
        return self.cpu_seconds * 1e3 / len(self.seconds)

    @property
    def p50_ms(self) -> float:
        """The median of how long an operation took."""
        return median(self.seconds) * 1e3


async def prepare(side: Side, row: str, seconds: float) -> None:
    """Make what the row needs, warm up, and forget what an earlier row showed."""
    word, _, workers = row.partition("-")
    agents = Agents(side.origin, model=Options.model, embedding=Options.embedding)
    kind: Kind = KINDS[word](agents)
    await kind.prepare(int(workers), int((WARM_UP_SECONDS + seconds) * OPERATIONS_A_SECOND_MAX))
    side.team = [(kind.worker(), Connection(side.origin)) for _ in range(int(workers))]
    await side.meter.wait_quiet()
    await drive(side.team, WARM_UP_SECONDS)
    side.seconds, side.cpu_seconds = [], 0.0


async def slice_of(side: Side, seconds: float) -> None:
    """Ask one server for a moment. Raises RuntimeError for an operation that failed."""
    await asyncio.sleep(SETTLE_SECONDS)
    before = sum(side.meter.read().values())
    phase = await drive(side.team, seconds)
    await asyncio.sleep(SETTLE_SECONDS)
    side.cpu_seconds += sum(side.meter.read().values()) - before
    for outcome in phase.outcomes:
        if outcome.problem:
            raise RuntimeError(outcome.problem)
        side.seconds.append(outcome.seconds)


async def compare(row: str, other: Side, ours: Side, rounds: int, seconds: float) -> str:
    """One row of the table."""
    for side in (other, ours):
        await prepare(side, row, rounds * seconds)
    for number in range(rounds):
        for side in (other, ours) if number % 2 else (ours, other):
            await slice_of(side, seconds)
    cpu, p50 = ours.cpu_ms / other.cpu_ms, ours.p50_ms / other.p50_ms
    return (
        f"{row:<12}{len(ours.seconds):>8}{other.cpu_ms:>10.2f}{ours.cpu_ms:>8.2f}{cpu:>8.3f}"
        f"{other.p50_ms:>10.2f}{ours.p50_ms:>8.2f}{p50:>8.3f}"
    )


@asynccontextmanager
async def running(checkout: Path, model_url: str) -> AsyncIterator[Side]:
    """A server of a checkout, gone afterwards."""
    given = {"OPENAI_API_BASE": model_url, "OPENAI_API_KEY": "sk-benchmark"}
    instance = HeelerInstance(env=given, checkout=checkout)
    try:
        await asyncio.to_thread(instance.up)
        parts = (await asyncio.to_thread(instance.status))["parts"]
        pids = {name: part["pid"] for name, part in parts.items()}
        supervisor = pids.pop("supervisor")  # the others are below it, so it is read last
        meter = CpuMeter(lambda: {**pids, "supervisor": supervisor})
        yield Side(Origin.of(instance.base_url), meter)
    finally:
        await asyncio.to_thread(instance.close)


async def run(options: argparse.Namespace) -> None:
    """Measure and print."""
    async with (
        ScriptedModelProcess() as model,
        running(options.checkout.resolve(), model.base_url) as other,
        running(CHECKOUT, model.base_url) as ours,
    ):
        print(f"{'':<20}{'ms of CPU':>16}{'':>10}{'p50 in ms':>18}")
        print(f"{'row':<12}{'ours':>8}{'other':>10}{'ours':>8}{'ratio':>8}", end="")
        print(f"{'other':>10}{'ours':>8}{'ratio':>8}", flush=True)
        for row in options.rows:
            line = await compare(row, other, ours, options.rounds, options.seconds)
            print(line, flush=True)


def chosen_rows(text: str) -> list[str]:
    """Rows by name."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        word, _, workers = name.partition("-")
        if word not in KINDS or not workers.isdigit() or not int(workers):
            raise argparse.ArgumentTypeError(f"no row {name!r}; there are {', '.join(ROWS)}")
    return names


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.paired",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checkout", type=Path, help="the other checkout")
    parser.add_argument("--only", dest="rows", type=chosen_rows, default=ROWS, metavar="NAME,...")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each in a round")
    uvloop.run(run(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
