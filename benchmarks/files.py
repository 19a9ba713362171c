"""python -m benchmarks.files: how long searches and inserts of passages take others while uploaded
files are embedded, beside what they take on a quiet server."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import time
from collections.abc import Awaitable, Callable, Iterator

import httpx

from benchmarks.instance import own_instance
from benchmarks.passages import Row, quantile, text_of

AGENT = {"model": "demo/offline", "embedding": "letta/letta-free"}
# What the 99th percentile under load may be, in quiet medians.
FACTOR_MAX = 10.0
FILE_CHARS = 2_000_000
PASSAGES = 50
SECONDS_BETWEEN = 0.05
type Operation = Callable[[], Awaitable[httpx.Response]]


async def timed(operation: Operation, seconds: float) -> list[float]:
    """How long an operation took, each time, made again and again for so long."""
    until, took = time.monotonic() + seconds, []
    while time.monotonic() < until:
        began = time.perf_counter()
        (await operation()).raise_for_status()
        took.append(time.perf_counter() - began)
        await asyncio.sleep(SECONDS_BETWEEN)
    return took


def text_file(numbers: Iterator[int]) -> bytes:
    """A file of text of which no two chunks are the same."""
    lines: list[str] = []
    chars = 0
    while chars < FILE_CHARS:
        lines.append(text_of(next(numbers)))
        chars += len(lines[-1]) + 1
    return "\n".join(lines).encode()


class Load:
    """Files of one folder, of which there are always some that wait to be embedded."""

    def __init__(self, client: httpx.AsyncClient, folder: str, files: int) -> None:
        self.client, self.path, self.files = client, f"/v1/folders/{folder}", files
        self.numbers, self.names = itertools.count(), itertools.count()
        self.chunks = 0

    async def keep_up(self) -> None:
        """Upload files until so many are unfinished, and again when one is done."""
        while True:
            found = (await self.client.get(f"{self.path}/files", params={"limit": 100})).json()
            self.chunks = sum(file["chunks_embedded"] or 0 for file in found)
            busy = [file for file in found if file["processing_status"] in BUSY]
            for _ in range(self.files - len(busy)):
                name = f"file-{next(self.names)}.txt"
                sent = {"file": (name, text_file(self.numbers), "text/plain")}
                (await self.client.post(f"{self.path}/upload", files=sent)).raise_for_status()
            await asyncio.sleep(1)


BUSY = ("pending", "parsing", "embedding")


async def measured(client: httpx.AsyncClient, options: argparse.Namespace) -> float:
    """Print both tables; returns the worst p99 under load, in quiet medians."""
    made = await client.post("/v1/agents/", json=AGENT)
    memory = f"/v1/agents/{made.raise_for_status().json()['id']}/archival-memory"
    numbers = itertools.count(1_000_000)
    for _ in range(PASSAGES):
        await client.post(memory, json={"text": text_of(next(numbers))})
    operations: dict[str, Operation] = {
        "search": lambda: client.get(
            f"{memory}/search", params={"query": text_of(next(numbers))[:60]}
        ),
        "insert": lambda: client.post(memory, json={"text": text_of(next(numbers))}),
    }
    quiet = {name: await timed(operation, options.quiet) for name, operation in operations.items()}
    folder = (await client.post("/v1/folders/", json={"name": "load"})).raise_for_status().json()
    load = Load(client, folder["id"], options.files)
    keeping = asyncio.create_task(load.keep_up())
    try:
        while not load.chunks:
            await asyncio.sleep(0.1)
            if keeping.done():
                keeping.result()
        before, began = load.chunks, time.monotonic()
        busy = await asyncio.gather(
            *(timed(operation, options.seconds) for operation in operations.values())
        )
        rate = (load.chunks - before) / (time.monotonic() - began)
    finally:
        keeping.cancel()
    print(f"{options.files} files are embedded at a time, {rate:.1f} chunks in a second")
    worst = 0.0
    for (name, alone), beside in zip(quiet.items(), busy, strict=True):
        factor = quantile(beside, 0.99) / quantile(alone, 0.5)
        worst = max(worst, factor)
        print(Row(f"{name}, quiet", alone))
        print(f"{Row(f'{name}, while files are embedded', beside)}   {factor:.1f} quiet medians")
    return worst


async def run(options: argparse.Namespace) -> int:
    async with own_instance() as subject:
        url = f"http://{subject.origin.host}:{subject.origin.port}"
        async with httpx.AsyncClient(base_url=url, timeout=120) as client:
            worst = await measured(client, options)
    print(f"worst p99: {worst:.1f} quiet medians; {FACTOR_MAX:g} wanted at most")
    return 0 if worst <= FACTOR_MAX else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.files", description=__doc__)
    parser.add_argument("--files", type=int, default=3, help="that are embedded at a time")
    parser.add_argument("--quiet", type=float, default=10.0, help="seconds of each, before")
    parser.add_argument("--seconds", type=float, default=60.0, help="under load")
    return asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
