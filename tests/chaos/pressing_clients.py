"""Clients that ask without a pause, in a process of their own so that their work delays nobody
who is timed: `python -m tests.chaos.pressing_clients BASE_URL LOAD`.

Ends when its stdin does, or when the load is over; prints how often what was answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any

from tests.chaos.client import NO_ANSWER, Answer, Client

STOP_SECONDS_MAX = 90.0


@dataclass(frozen=True, slots=True)
class Load:
    """What so many clients ask: in turn each of the paths, `requests_max` in all, and whether they
    hang up before they can have an answer."""

    method: str
    paths: list[str]
    body: Any
    clients: int
    requests_max: int | None = None
    hang_up_seconds: float | None = None


@asynccontextmanager
async def pressing(base_url: str, load: Load) -> AsyncIterator[asyncio.Task[Counter[int]]]:
    """While the load goes on; the task ends with it, or at the end of the block, with how often
    which status was the answer, and 0 for none."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, base_url, json.dumps(asdict(load)),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin
    assert process.stdout

    async def answers(output: asyncio.StreamReader) -> Counter[int]:
        found: Counter[int] = Counter()
        for status, times in json.loads(await output.read()).items():
            found[int(status)] = times
        return found

    ended = asyncio.create_task(answers(process.stdout))
    try:
        yield ended
    finally:
        process.stdin.close()
        try:
            async with asyncio.timeout(STOP_SECONDS_MAX):
                await asyncio.wait([ended])
        except TimeoutError:
            process.kill()
        await process.wait()


async def press(base_url: str, load: Load, stop: asyncio.Event) -> Counter[int]:
    """Ask until told to stop, or until all is asked."""
    statuses: Counter[int] = Counter()
    paths = itertools.islice(itertools.cycle(load.paths), load.requests_max)
    content = json.dumps(load.body).encode()

    async def ask() -> None:
        client = Client(base_url)
        for path in paths:
            if stop.is_set():
                return
            answer = await answer_of(client, load, path, content)
            statuses[answer.status] += 1

    await asyncio.gather(*(ask() for _ in range(load.clients)))
    return statuses


async def answer_of(client: Client, load: Load, path: str, content: bytes) -> Answer:
    """The answer to one request, if there is one before it is hung up."""
    with contextlib.suppress(OSError, EOFError, ValueError, TimeoutError):
        async with asyncio.timeout(load.hang_up_seconds):
            return await client.once(load.method, path, content)
    return NO_ANSWER


async def main(base_url: str, load: Load) -> None:
    """Press until stdin ends."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, stop.set)
    print(json.dumps(await press(base_url, load, stop)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Load(**json.loads(sys.argv[2]))))
