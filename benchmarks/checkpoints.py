"""python -m benchmarks.checkpoints: how long it takes to write down what memory is, and to read it.

A snapshot is the whole state of an aggregate as JSON, and what is read back is the same aggregate.
Measured are a block with 32 KB in it, and an archive that as many agents have as may (1,000): the
states of passages and files are smaller.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from math import ceil
from typing import Any

from pydantic_core import from_json, to_json

from libs.contracts.base_aggregate import Aggregate
from libs.contracts.letta.blocks import BlockState
from libs.contracts.memory.archives import ArchiveAttached, ArchiveCreated
from libs.contracts.memory.blocks import BlockCreated
from libs.eventstore.unit_of_work import snapshot_of
from services.memory.domain.archive import AGENTS_MAX, Archive
from services.memory.domain.block import Block

CHECKPOINTS = 2_000
BLOCK_CHARS = 32_000
P99_MILLISECONDS_MAX = 10.0
AT = datetime(2026, 1, 1, tzinfo=UTC)


def block() -> Block:
    """A block that is full."""
    made = Block.blank("block-1")
    state = BlockState(id="block-1", label="human", value="Likes tea. " * (BLOCK_CHARS // 11))
    made.record(BlockCreated, at=AT, block=state)
    return made


def archive() -> Archive:
    """An archive that as many agents have as may."""
    made = Archive.blank("archive-1")
    made.record(ArchiveCreated, at=AT, name="Facts")
    for number in range(AGENTS_MAX):
        made.record(ArchiveAttached, at=AT, agent_id=f"agent-{number}")
    return made


def measured(aggregate: Aggregate[Any]) -> tuple[float, float]:
    """The median and the 99th percentile of writing a snapshot and reading it back, in ms."""
    taken = []
    for _ in range(CHECKPOINTS):
        began = time.perf_counter_ns()
        text = to_json(snapshot_of(aggregate, "org-1").state)
        again = type(aggregate).blank(
            aggregate.id, version=aggregate.version, state=from_json(text), org="org-1"
        )
        taken.append(time.perf_counter_ns() - began)
        assert again.state == aggregate.state, "what is read back is the same"
    taken.sort()
    return taken[CHECKPOINTS // 2] / 1e6, taken[ceil(CHECKPOINTS * 0.99) - 1] / 1e6


def report() -> bool:
    """Print what a checkpoint takes; returns whether that is within its bound."""
    good = True
    for name, aggregate in (("a 32 KB block", block()), ("an archive of 1,000 agents", archive())):
        median, p99 = measured(aggregate)
        within = p99 <= P99_MILLISECONDS_MAX
        good = good and within
        verdict = "within" if within else "OVER"
        print(
            f"checkpoint of {name}: p50 {median:.2f} ms, p99 {p99:.2f} ms,"
            f" {verdict} {P99_MILLISECONDS_MAX:g} ms"
        )
    return good


if __name__ == "__main__":
    sys.exit(0 if report() else 1)
