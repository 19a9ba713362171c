"""R43: what a server reads of Postgres while nobody asks does not grow with its agents."""

from __future__ import annotations

import sys
import time

import psycopg
import pytest

from benchmarks.filled_home import make_prototype
from tests.servers import HeelerInstance

FEW, MANY = 20, 400
# Longer than erasure and the consumers rest between two looks: what they read again and again is in
# each of these times.
IDLE_SECONDS = 12.0
FEW_TIMES = 3
MANY_TIMES = 25  # what is new is read once more after 45 s, and by consumers that catch up
RATIO_MAX = 1.5
BLOCKS = """
select sum(heap_blks_hit + heap_blks_read + coalesce(idx_blks_hit + idx_blks_read, 0))::bigint
from pg_statio_user_tables"""


def blocks(connection: psycopg.Connection) -> int:
    """The blocks of tables and their indexes that were read by now."""
    [(count,)] = connection.execute(BLOCKS).fetchall()
    return int(count)


def idle_blocks(url: str, times: int, enough: float = 0.0) -> int:
    """The least that is read in some seconds in which nobody asks; so many times are looked at,
    unless one has so little."""
    least = sys.maxsize
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(times):
            before = blocks(connection)
            time.sleep(IDLE_SECONDS)
            least = min(least, blocks(connection) - before)
            if least <= enough:
                break
    return least


@pytest.mark.timeout(600)
def test_r43_idle_load_does_not_grow_with_the_agents() -> None:
    with HeelerInstance(env={"HEELER_PROCESSES": "one"}) as heeler:
        prototype = make_prototype(heeler.base_url, heeler.database_url)
        prototype.fill(FEW)
        few = idle_blocks(heeler.database_url, FEW_TIMES)
        prototype.fill(MANY)
        many = idle_blocks(heeler.database_url, MANY_TIMES, enough=RATIO_MAX * few)
    assert many <= RATIO_MAX * few, f"{few} blocks with {FEW} agents, {many} with {MANY}"
