"""R17: the disk is full for half a minute (half of that in the tests), and then has room again.

The whole home (Postgres, NATS, state and logs) is on a small disk of its own, which a file fills to
the last byte and keeps full. Who may not mount one skips this.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import psycopg

from tests.chaos.dose import Dose
from tests.chaos.oracle import Verdict, begin
from tests.chaos.workload import Workload
from tests.chaos.world import Kill, World, started
from tests.servers import delete_home, temporary_home

DISK_MEGABYTES = 384
FULL_SECONDS = 30.0
CI_FULL_SECONDS = 15.0
LOG_FILES = 3
FILL_PAUSE_SECONDS = 0.05
FILL_BYTES = (1 << 20, 1 << 12, 1)
BACK_SECONDS_MAX = 30.0
MESSAGES_PER_SECOND = 4.0
REFUSED_BY = {0, 503}  # a connection that broke, or an honest answer
NO_DISK = "R17: no small disk can be mounted here, so none was filled"


async def r17_disk_full(world: World, dose: Dose) -> Verdict:
    """So often: full for a while under load, then room. Everything comes back by itself, and
    what was acknowledged is there. The world given is not hurt: this one has a disk of its own."""
    with small_disk() as disk:
        if disk is None:
            return Verdict("R17", skipped=[NO_DISK])
        async with started(world.random.getrandbits(32), home=disk) as crowded:
            return await filled(crowded, dose, disk)


async def filled(world: World, dose: Dose, disk: Path) -> Verdict:
    workload, oracle = await begin(world, "R17", agents=dose.agents, leases_run_out=True)
    verdict = oracle.verdict
    full_seconds = FULL_SECONDS if dose.faults > 1 else CI_FULL_SECONDS
    for _ in range(dose.faults):
        seconds = max(full_seconds, dose.messages / dose.faults / MESSAGES_PER_SECOND)
        load = workload.run(dose.messages // dose.faults, seconds, world.random)
        running = asyncio.create_task(load)
        began = time.monotonic()
        async with full(disk):
            await asyncio.sleep(full_seconds / 3)
            await want_a_log_file(world)
            await asyncio.sleep(full_seconds * 2 / 3)
        world.kills.append(Kill(began, "disk", until=time.monotonic()))
        back = await seconds_until_served(world)
        await running
        note(
            verdict,
            back,
            [refusal.status for refusal in workload.client.refusals if refusal.at > began],
        )
    await world.healthy()
    return await oracle.judge()


def note(verdict: Verdict, back: float, refused: list[int]) -> None:
    """Keep the figures of one time, and hold them against what is promised."""
    figures = verdict.figures
    figures["back_seconds_max"] = max(figures.get("back_seconds_max", 0.0), back)
    verdict.check(back <= BACK_SECONDS_MAX, f"served only {back:.0f} s after there was room")
    for status, times in Counter(refused).items():
        figures[f"attempts_answered_{status}"] = (
            figures.get(f"attempts_answered_{status}", 0) + times
        )
    verdict.check(figures.get("attempts_answered_503", 0) > 0, "nobody noticed that it was full")
    verdict.check(set(refused) <= REFUSED_BY, f"refused by {Counter(refused)}")


async def want_a_log_file(world: World) -> None:
    """Have Postgres go on to the next file of its write-ahead log, for which there is no room: it
    stops at once, as after a crash, and cannot start before there is."""
    for _ in range(LOG_FILES):
        with contextlib.suppress(psycopg.Error):
            await world.sql("create table if not exists wanted_room ()")
            await world.sql("select pg_switch_wal()")


async def seconds_until_served(world: World) -> float:
    """How long it takes from now until a new agent is made and answers."""
    began, client = time.monotonic(), world.client()
    probe = Workload(client, world.new_name("R17-probe"))
    await probe.create_agents(1)
    request = await probe.send(probe.request(probe.agents[0], tool=True))
    assert request.answer.ok, f"{request.answer.status} {request.answer.body!r}"
    await asyncio.to_thread(world.heeler.wait_healthy)
    return time.monotonic() - began


@contextmanager
def small_disk() -> Iterator[Path | None]:
    """A folder on a small disk of its own, or None where we may not mount one."""
    folder = temporary_home()
    options = f"size={DISK_MEGABYTES}m,mode=0755"
    mounted = os.geteuid() == 0 and ran("mount", "-t", "tmpfs", "-o", options, "tmpfs", folder)
    try:
        yield folder if mounted else None
    finally:
        if mounted:
            ran("umount", "--lazy", folder)
        delete_home(folder)


def ran(*words: str | Path) -> bool:
    """Whether a command is there and succeeds."""
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@asynccontextmanager
async def full(disk: Path) -> AsyncIterator[None]:
    """A disk without a free byte; what is freed meanwhile is taken at once."""
    path = disk / "filler"

    async def fill() -> None:
        with path.open("ab", buffering=0) as file:
            while True:
                for size in FILL_BYTES:
                    with contextlib.suppress(OSError):
                        while file.write(b"x" * size) == size:
                            pass
                await asyncio.sleep(FILL_PAUSE_SECONDS)

    filling = asyncio.create_task(fill())
    try:
        yield
    finally:
        filling.cancel()
        await asyncio.gather(filling, return_exceptions=True)
        path.unlink(missing_ok=True)
