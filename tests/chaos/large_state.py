"""RELAY: clients that send as much as they may, and more, while others talk."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psutil

from libs.contracts.letta.request_size_limits import BLOCK_VALUE_CHARS_MAX
from tests.chaos.client import Client
from tests.chaos.dose import Dose
from tests.chaos.kills import under_load
from tests.chaos.oracle import Verdict
from tests.chaos.workload import EMBEDDING, MODEL
from tests.chaos.world import World

PAUSE_SECONDS = (2.0, 3.0)
LOOK_SECONDS = 0.5
MEMORY_BYTES_MAX = 1 << 30  # beyond what everything had before
CONTEXT_TOKENS = 10_000_000  # all blocks are to be shown
LARGE_BLOCKS = 9  # together more than a message on the bus may hold
MODERATE = b",".join([b"1e308"] * 28_000)  # 168 kB, and 8.6 MB with all their digits
EXCESSIVE = b",".join([b"1e308"] * 1_000_000)


async def relay_large_state(world: World, dose: Dose) -> Verdict:
    """Long numbers, blocks and prompts: what is too much is refused, the rest is published, and
    nobody needs the memory for all digits."""
    client = world.client()
    seen: list[str] = []

    async def fault() -> None:
        seen.extend(await pressed(client, world.new_name("large")))

    async with memory_watched(world) as peak:
        oracle = await under_load(world, dose, "RELAY", fault, PAUSE_SECONDS)
        verdict = await oracle.judge()
    verdict.wrong += seen
    growth = peak["most"] - peak["before"]
    verdict.figures["memory_growth_megabytes"] = growth / (1 << 20)
    verdict.check(growth < MEMORY_BYTES_MAX, f"memory grew by {growth >> 20} MB")
    return verdict


async def pressed(client: Client, name: str) -> list[str]:
    """What was answered otherwise than it should be."""
    wrong: list[str] = []

    async def post(path: str, content: bytes, status: int) -> Any:
        answer = await client.once("POST", path, content)
        if answer.status != status:
            wrong.append(f"{path}: {answer.status}, not {status}: {answer.body[:200]!r}")
        return json.loads(answer.body)

    for numbers, status in ((MODERATE, 200), (EXCESSIVE, 422)):
        body = b'{"name":"%s","model":"%s","metadata":{"numbers":[%s]}}'
        await post("/v1/agents", body % (name.encode(), MODEL.encode(), numbers), status)
    huge = {"label": "huge", "value": "x" * 5_000_000, "limit": 6_000_000}
    for _ in range(2):
        await post("/v1/blocks", json.dumps(huge).encode(), 422)
    large = {"label": "large", "value": "x" * (BLOCK_VALUE_CHARS_MAX - 10_000), "limit": 6_000_000}
    blocks = [
        await post("/v1/blocks", json.dumps({**large, "label": f"large-{n}"}).encode(), 200)
        for n in range(LARGE_BLOCKS)
    ]
    ids = [block["id"] for block in blocks]
    agent = {
        **{"name": f"{name}-blocks", "model": MODEL, "embedding": EMBEDDING, "block_ids": ids},
        "context_window_limit": CONTEXT_TOKENS,
    }
    made = await post("/v1/agents", json.dumps(agent).encode(), 200)
    message = {"messages": [{"role": "user", "content": f"{name} SAY:well"}]}
    await post(f"/v1/agents/{made['id']}/messages", json.dumps(message).encode(), 200)
    return wrong


@asynccontextmanager
async def memory_watched(world: World) -> AsyncIterator[dict[str, int]]:
    """The memory of all processes of the server: before, and the most that was seen."""
    await world.restored()
    peak = {"before": memory_bytes(world), "most": 0}

    async def watch() -> None:
        while True:
            peak["most"] = max(peak["most"], await asyncio.to_thread(memory_bytes, world))
            await asyncio.sleep(LOOK_SECONDS)

    watching = asyncio.create_task(watch())
    try:
        yield peak
    finally:
        watching.cancel()


def memory_bytes(world: World) -> int:
    """What belongs to the server's processes alone, all together."""
    total = 0
    supervisor = psutil.Process(world.heeler.pid("supervisor"))
    for process in [supervisor, *supervisor.children(recursive=True)]:
        try:
            total += process.memory_full_info().uss
        except (psutil.NoSuchProcess, psutil.AccessDenied, ProcessLookupError):
            continue
    return total
