"""python -m benchmarks.paired CHECKOUT: this checkout beside another one of the same project.

Both servers run at the same time, and each in turn is asked for a moment, over and over. What slows
the machine down for a while then slows both, so their ratio means something where single figures do
not. A start may be lucky or unlucky for as long as it runs (hash seeds, places in memory),
so both are started several times. The other checkout needs its own `.venv`: run
`deploy/bootstrap.sh` there once.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import defaultdict
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
from benchmarks.rows import Create, Get, Kind, List, Message, Operate, Stream
from deploy.embedded.settings import CHECKOUT
from tests.scripted_model import ScriptedModelProcess
from tests.servers import HeelerInstance

KINDS: dict[str, type[Create | Get | List | Message | Stream]] = {
    "create": Create,
    "get": Get,
    "list": List,
    "message": Message,
    "stream": Stream,
}
ROWS = ("get-1", "list-1", "message-1", "message-8", "stream-1", "create-1")
STARTS = 5
ROUNDS = 12
SECONDS = 0.4
WARM_UP_SECONDS = 2.0
SETTLE_SECONDS = 0.05  # for what goes on after an answer
OPERATIONS_A_SECOND_MAX = 250  # of those that use agents up


@dataclass
class Shown:
    """What one of the two showed in a row."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    @property
    def cpu_ms(self) -> float:
        """CPU for each operation, of all processes of the server."""
        return sum(self.cpu_seconds.values()) * 1e3 / len(self.seconds)

    def cpu_ms_of(self, process: str) -> float:
        """CPU for each operation, of one process of the server and its children."""
        return self.cpu_seconds.get(process, 0.0) * 1e3 / len(self.seconds)

    @property
    def p50_ms(self) -> float:
        """The median of how long an operation took."""
        return median(self.seconds) * 1e3


@dataclass
class Side:
    """One of the two servers."""

    origin: Origin
    meter: CpuMeter
    shown: dict[str, Shown]
    team: list[tuple[Operate, Connection]] = field(default_factory=list)

    async def prepare(self, row: str, seconds: float) -> None:
        """Make what so many seconds of the row need, and warm up."""
        word, _, workers = row.partition("-")
        agents = Agents(self.origin, model=Options.model, embedding=Options.embedding)
        kind: Kind = KINDS[word](agents)
        await kind.prepare(int(workers), int((WARM_UP_SECONDS + seconds) * OPERATIONS_A_SECOND_MAX))
        self.team = [(kind.worker(), Connection(self.origin)) for _ in range(int(workers))]
        await self.meter.wait_quiet()
        await drive(self.team, WARM_UP_SECONDS)

    async def ask(self, row: str, seconds: float) -> None:
        """Operate for so long. Raises RuntimeError for an operation that failed."""
        shown = self.shown.setdefault(row, Shown())
        await asyncio.sleep(SETTLE_SECONDS)
        before = self.meter.read()
        phase = await drive(self.team, seconds)
        await asyncio.sleep(SETTLE_SECONDS)
        for process, used in self.meter.read().items():
            shown.cpu_seconds[process] += used - before.get(process, 0.0)
        for outcome in phase.outcomes:
            if outcome.problem:
                raise RuntimeError(outcome.problem)
            shown.seconds.append(outcome.seconds)

    def finish(self) -> None:
        """Close the connections."""
        for _, connection in self.team:
            connection.close()


async def measure(row: str, first: Side, second: Side, *, rounds: int, seconds: float) -> None:
    """One row, by turns."""
    for side in (first, second):
        await side.prepare(row, rounds * seconds)
    for number in range(rounds):
        for side in (second, first) if number % 2 else (first, second):
            await side.ask(row, seconds)
    for side in (first, second):
        side.finish()


@asynccontextmanager
async def running(checkout: Path, model_url: str, shown: dict[str, Shown]) -> AsyncIterator[Side]:
    """A server of a checkout, gone afterwards."""
    given = {"OPENAI_API_BASE": model_url, "OPENAI_API_KEY": "sk-benchmark"}
    instance = HeelerInstance(env=given, checkout=checkout)
    try:
        await asyncio.to_thread(instance.up)
        parts = (await asyncio.to_thread(instance.status))["parts"]
        pids = {name: part["pid"] for name, part in parts.items()}
        supervisor = pids.pop("supervisor")  # the others are below it, so it is read last
        meter = CpuMeter(lambda: {**pids, "supervisor": supervisor})
        yield Side(Origin.of(instance.base_url), meter, shown)
    finally:
        await asyncio.to_thread(instance.close)


async def run(options: argparse.Namespace) -> None:
    """Measure and print."""
    theirs, ours = dict[str, Shown](), dict[str, Shown]()
    async with ScriptedModelProcess() as model:
        for start in range(options.starts):
            async with (
                running(options.checkout.resolve(), model.base_url, theirs) as other,
                running(CHECKOUT, model.base_url, ours) as our,
            ):
                for row in options.rows:
                    first, second = (other, our) if start % 2 else (our, other)
                    await measure(
                        row, first, second, rounds=options.rounds, seconds=options.seconds
                    )
            print(f"after {start + 1} of {options.starts} starts")
            print(table(theirs, ours), flush=True)
    if options.by_process:
        print(table_by_process(theirs, ours))


def table(theirs: dict[str, Shown], ours: dict[str, Shown]) -> str:
    """What all rows have shown so far."""
    lines = [
        f"{'':<20}{'CPU, ms per operation':>26}{'p50, ms':>26}",
        f"{'row':<12}{'ours':>8}" + f"{'other':>10}{'ours':>8}{'ratio':>8}" * 2,
    ]
    for row, our in ours.items():
        their = theirs[row]
        lines.append(
            f"{row:<12}{len(our.seconds):>8}"
            f"{their.cpu_ms:>10.2f}{our.cpu_ms:>8.2f}{our.cpu_ms / their.cpu_ms:>8.3f}"
            f"{their.p50_ms:>10.2f}{our.p50_ms:>8.2f}{our.p50_ms / their.p50_ms:>8.3f}"
        )
    return "\n".join(lines)


def table_by_process(theirs: dict[str, Shown], ours: dict[str, Shown]) -> str:
    """The CPU of each process for an operation, in ms: the other's and ours."""
    lines = []
    for row, our in ours.items():
        their = theirs[row]
        for process in sorted(their.cpu_seconds.keys() | our.cpu_seconds.keys()):
            other_ms, our_ms = their.cpu_ms_of(process), our.cpu_ms_of(process)
            lines.append(f"{row:<12}{process:<12}{other_ms:>8.3f}{our_ms:>8.3f}")
    return "\n".join(lines)


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
    parser.add_argument("--starts", type=int, default=STARTS, help="of both servers")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="with each start")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each in a round")
    parser.add_argument("--by-process", action="store_true", help="print the CPU of each process")
    options = parser.parse_args()
    if not (options.checkout / ".venv" / "bin" / "python").exists():
        parser.error(f"{options.checkout} has no .venv: run deploy/bootstrap.sh there")
    uvloop.run(run(options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
