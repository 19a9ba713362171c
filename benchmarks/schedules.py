"""python -m benchmarks.schedules: how late the runs of many schedules begin that are due within one
minute, and whether each begins once."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import psycopg

from benchmarks.passages import quantile
from tests.made_schedules import FOUND, make_schedules
from tests.scripted_model import ScriptedModelProcess
from tests.servers import HeelerInstance

SECONDS_MAX = 30.0  # after the minute
WAIT_SECONDS_MAX = 300.0
NAME = "benchmark"


async def measured(instance: HeelerInstance, options: argparse.Namespace) -> int:
    """Make the schedules, wait for their runs, and print how late those were."""
    async with httpx.AsyncClient(base_url=instance.base_url, timeout=60) as client:
        wanted = {"model": "openai/gpt-4o-mini", "embedding": "letta/letta-free"}
        made = [await client.post("/v1/agents/", json=wanted) for _ in range(options.agents)]
    agents = [str(answer.raise_for_status().json()["id"]) for answer in made]
    first = datetime.now(UTC) + timedelta(seconds=options.lead)
    spread = options.spread / options.schedules
    slots = [first + timedelta(seconds=spread * n) for n in range(options.schedules)]
    began = time.monotonic()
    await make_schedules(instance.nats_url, NAME, agents, slots, "SAY:It is time.")
    print(f"{options.schedules} schedules made in {time.monotonic() - began:.1f} s")
    rows = await found(instance, options.schedules)
    late = sorted(row[4] for row in rows)
    doubled = sum(max(row[1], row[3]) > 1 for row in rows)
    print(f"late by {quantile(late, 0.5):.1f} s (median), {quantile(late, 0.99):.1f} s (p99)")
    print(f"latest: {late[-1]:.1f} s after its slot; fired twice: {doubled}")
    return int(late[-1] > SECONDS_MAX or doubled > 0 or len(rows) < options.schedules)


async def found(instance: HeelerInstance, count: int) -> list[tuple[Any, ...]]:
    """The rows of all schedules once each has a run."""
    until = time.monotonic() + WAIT_SECONDS_MAX
    async with await psycopg.AsyncConnection.connect(instance.database_url) as connection:
        while True:
            rows = await (await connection.execute(FOUND.format(name=NAME).encode())).fetchall()
            await connection.rollback()
            if sum(row[3] > 0 for row in rows) >= count or time.monotonic() > until:
                return rows
            await asyncio.sleep(1.0)


async def run(options: argparse.Namespace) -> int:
    async with ScriptedModelProcess() as model:
        given = {"OPENAI_API_BASE": model.base_url, "OPENAI_API_KEY": "sk-benchmark"}
        with HeelerInstance(env=given) as instance:
            return await measured(instance, options)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.schedules", description=__doc__)
    parser.add_argument("--schedules", type=int, default=1_000)
    parser.add_argument("--agents", type=int, default=50)
    parser.add_argument("--lead", type=float, default=40.0, help="seconds before the first slot")
    parser.add_argument("--spread", type=float, default=0.0, help="seconds over which slots lie")
    return asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
