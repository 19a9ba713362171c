"""What the soak says of a server that keeps too much."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.chaos.oracle import Verdict
from tests.chaos.soak import Usage, judge

BEGIN = Usage(
    memory_mb={"api": 100.0, "postgres": 200.0, "nats": 50.0},
    descriptors={"api": 40, "postgres": 300},
    stream_messages={},
    stream_bytes={},
    unacknowledged=0,
    events=0,
    unpublished=0,
    connections=20,
    agents=3,
)


def problems(end: Usage, *, long: bool) -> list[str]:
    verdict = Verdict("R36")
    judge(verdict, BEGIN, end, long=long)
    return verdict.wrong


@pytest.mark.parametrize("long", [True, False])
def test_a_server_that_keeps_nothing_passes(long: bool) -> None:
    assert problems(BEGIN, long=long) == []


@pytest.mark.parametrize(("long", "mb"), [(True, 10.0), (False, 150.0)])
@pytest.mark.parametrize("part", ["api", "postgres", "nats"])
def test_memory_that_grows_is_named(part: str, mb: float, long: bool) -> None:
    more = BEGIN.memory_mb[part] + max(mb, BEGIN.memory_mb[part] * 0.06)
    end = replace(BEGIN, memory_mb={**BEGIN.memory_mb, part: more})
    assert problems(end, long=long) == [
        f"{part} grew from {BEGIN.memory_mb[part]:.0f} to {more:.0f} MB"
    ]


def test_other_things_that_are_kept_are_named() -> None:
    end = replace(
        BEGIN,
        descriptors={**BEGIN.descriptors, "api": 90},
        unacknowledged=2,
        connections=30,
        stream_messages={"agent_commands": 4},
    )
    text = "\n".join(problems(end, long=True))
    for words in ("api has 90 of", "2 commands were never", "10 connections", "4 messages more"):
        assert words in text
