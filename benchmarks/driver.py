"""One run: the server under test, its agents, and row after row."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.agents import Agents, RunFailed
from benchmarks.instance import Subject, own_instance, running_server
from benchmarks.measure import Figures, measure
from benchmarks.report import document, heading, line, read_reference
from benchmarks.rows import (
    CONCURRENCIES,
    BusCommand,
    Create,
    Get,
    Insert,
    Kind,
    List,
    Message,
    Search,
    Stream,
)
from benchmarks.targets import judge
from libs.bus.clock_and_ids import RandomIds, SystemClock
from libs.bus.nats_bus import NatsBus
from libs.embeddings.bundled_model_config import HANDLE

ROWS = tuple(f"{kind}-{each}" for kind, many in CONCURRENCIES.items() for each in many)
SKIPPED = "skipped: an own instance alone has this"


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the person asked for."""

    base_url: str | None = None
    pids: list[int] = field(default_factory=list)
    rows: Sequence[str] = ROWS
    seconds: float = 5.0
    model: str = "openai/gpt-4o-mini"
    embedding: str = "openai/text-embedding-3-small"
    json_file: Path | None = None
    against: Path | None = None


async def run(options: Options) -> bool:
    """Measure, print, write; whether every row could be measured."""
    reference = read_reference(options.against) if options.against else {}
    async with AsyncExitStack() as stack:
        chosen = options.base_url
        server = running_server(chosen, options.pids) if chosen else own_instance()
        subject = await stack.enter_async_context(server)
        agents = Agents(subject.origin, model=options.model, embedding=options.embedding)
        embedded = Agents(subject.origin, model=options.model, embedding=HANDLE)
        if not subject.ours:
            stack.push_async_callback(clean_up, agents)
        kinds = await stack.enter_async_context(all_kinds(subject, agents, embedded))
        print(heading(subject.name, options.seconds), flush=True)
        rows = []
        for row in options.rows:
            figures = await one_row(row, kinds, subject, options.seconds)
            print(line(figures, judge(figures, reference)), flush=True)
            rows.append(figures)
    if options.json_file:
        about = {
            "server": subject.name,
            "seconds": options.seconds,
            "model": options.model,
            "python": platform.python_version(),
            "cores": os.cpu_count(),
        }
        text = json.dumps(document(about, rows, reference), indent=2)
        options.json_file.write_text(text + "\n")
    return not any(figures.problem and figures.problem != SKIPPED for figures in rows)


@asynccontextmanager
async def all_kinds(
    subject: Subject, agents: Agents, embedded: Agents
) -> AsyncIterator[dict[str, Kind]]:
    """The kinds of operation that this server can be asked for, by the word in the row's name.
    What `embedded` agents remember is embedded by the model that comes with an own instance."""
    kinds: dict[str, Kind] = {
        "get": Get(agents),
        "list": List(agents),
        "create": Create(agents),
        "message": Message(agents),
        "stream": Stream(agents),
        "insert": Insert(agents),
        "search": Search(agents),
    }
    if subject.nats_url is None:
        yield kinds
        return
    ids = RandomIds()
    bus = NatsBus(subject.nats_url, ids.new("benchmark"))
    await bus.start()
    try:
        yield kinds | {
            "bus": BusCommand(agents, bus, ids, SystemClock()),
            "minilm": Search(embedded),
        }
    finally:
        await bus.stop()


async def one_row(row: str, kinds: dict[str, Kind], subject: Subject, seconds: float) -> Figures:
    """The figures of one row, or in them why there are none."""
    word, _, workers = row.partition("-")
    kind = kinds.get(word)
    figures = Figures(row=row, what=kind.what if kind else word, concurrency=int(workers))
    if kind is None:
        figures.problem = SKIPPED
        return figures
    try:
        await measure(figures, kind, subject.origin, seconds=seconds, meter=subject.meter)
    except RunFailed as problem:
        figures.problem = f"failed: {problem}"
    return figures


async def clean_up(agents: Agents) -> None:
    """Delete what was made on a server that is not ours; say so if it cannot be done."""
    try:
        await agents.delete()
    except RunFailed as problem:
        print(f"agents or blocks of this run are left on the server: {problem}", file=sys.stderr)
