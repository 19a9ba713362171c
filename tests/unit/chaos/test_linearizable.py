"""The checker accepts what could have happened, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from tests.chaos.linearizable import UNKNOWN, Operation, linearizable, log, register


def write(value: str, called: float, returned: float = UNKNOWN) -> Operation:
    return Operation("write", value, called, returned)


def append(value: str, called: float, returned: float = UNKNOWN) -> Operation:
    return Operation("append", value, called, returned)


def read(value: object, called: float, returned: float = UNKNOWN) -> Operation:
    seen = tuple(value) if isinstance(value, list) else value
    return Operation("read", seen, called, returned)


ACCEPTED = {
    "nothing happened": [],
    "one after the other": [write("a", 1, 2), read("a", 3, 4), write("b", 5, 6), read("b", 7, 8)],
    "a read during a write sees the old value": [write("a", 1, 4), read("", 2, 3)],
    "a read during a write sees the new value": [write("a", 1, 4), read("a", 2, 3)],
    "two writes at once end in either order": [
        write("a", 1, 4),
        write("b", 1, 4),
        read("b", 5, 6),
        read("b", 7, 8),
    ],
    "a lost write took effect late": [
        write("a", 1),
        read("", 2, 3),
        write("b", 4, 5),
        read("a", 6, 7),
    ],
    "a lost write never took effect": [write("a", 1), read("", 2, 3), read("", 9, 10)],
    "a lost read says nothing": [write("a", 1, 2), read("", 3)],
}

REJECTED = {
    "a stale read": [write("a", 1, 2), read("", 3, 4)],
    "a value out of nowhere": [read("a", 1, 2)],
    "a value comes back": [
        write("a", 1, 2),
        write("b", 3, 4),
        read("b", 5, 6),
        read("a", 7, 8),
    ],
    "readers see two writes in different orders": [
        write("a", 1, 8),
        write("b", 1, 8),
        read("a", 2, 3),
        read("b", 4, 5),
        read("a", 6, 7),
    ],
    "a read before the write was called": [read("a", 1, 2), write("a", 3, 4)],
    "a lost write takes effect twice": [
        write("a", 1),
        read("a", 2, 3),
        write("b", 4, 5),
        read("b", 6, 7),
        read("a", 8, 9),
    ],
    "new, then old, while a write is under way": [
        write("a", 1, 9),
        read("a", 2, 3),
        read("", 4, 5),
    ],
}


@pytest.mark.parametrize("history", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_a_register_may_behave_like_this(history: list[Operation]) -> None:
    assert linearizable(history, register, "")


@pytest.mark.parametrize("history", REJECTED.values(), ids=REJECTED.keys())
def test_a_register_may_not_behave_like_this(history: list[Operation]) -> None:
    assert not linearizable(history, register, "")


LOGS_ACCEPTED = {
    "appends at once in either order": [
        append("a", 1, 4),
        append("b", 1, 4),
        read(["b", "a"], 5, 6),
    ],
    "a lost append shows up later": [append("a", 1), read([], 2, 3), read(["a"], 4, 5)],
    "a read in the middle": [append("a", 1, 2), append("b", 3, 6), read(["a"], 4, 5)],
}

LOGS_REJECTED = {
    "the order of two that followed each other": [
        append("a", 1, 2),
        append("b", 3, 4),
        read(["b", "a"], 5, 6),
    ],
    "a lost entry": [append("a", 1, 2), read([], 3, 4)],
    "an entry twice": [append("a", 1, 2), read(["a", "a"], 3, 4)],
    "an entry that disappears": [append("a", 1), read(["a"], 2, 3), read([], 4, 5)],
    "readers see different orders": [
        append("a", 1, 9),
        append("b", 1, 9),
        read(["a"], 2, 3),
        read(["b", "a"], 4, 5),
    ],
}


@pytest.mark.parametrize("history", LOGS_ACCEPTED.values(), ids=LOGS_ACCEPTED.keys())
def test_a_log_may_behave_like_this(history: list[Operation]) -> None:
    assert linearizable(history, log, ())


@pytest.mark.parametrize("history", LOGS_REJECTED.values(), ids=LOGS_REJECTED.keys())
def test_a_log_may_not_behave_like_this(history: list[Operation]) -> None:
    assert not linearizable(history, log, ())


def simulated(rolls: random.Random, operations: int) -> list[Operation]:
    """What clients of a true register see: each operation happens at one moment between its call
    and its return; some answers are lost, some operations too."""
    moments = []
    for number in range(operations):
        called = rolls.uniform(0, operations / 2)
        happened = called + rolls.uniform(0, 2)
        returned = happened + rolls.uniform(0, 2)
        moments.append((happened, number, called, returned))
    state, history = "", []
    for _, number, called, returned in sorted(moments):
        lost = rolls.random() < 0.1
        if rolls.random() < 0.5:
            state = state if lost and rolls.random() < 0.5 else str(number)
            history.append(write(str(number), called, UNKNOWN if lost else returned))
        else:
            history.append(read(state, called, returned))
    return history


@pytest.mark.parametrize("seed", range(20))
def test_what_a_true_register_shows_is_accepted(seed: int) -> None:
    assert linearizable(simulated(random.Random(seed), 120), register, "")


def with_a_stale_read(history: Sequence[Operation]) -> list[Operation]:
    end = max(operation.returned for operation in history if operation.certain)
    return [
        *history,
        write("before", end + 1, end + 2),
        write("after", end + 3, end + 4),
        read("before", end + 5, end + 6),
    ]


@pytest.mark.parametrize("seed", range(20))
def test_one_stale_read_among_many_operations_is_found(seed: int) -> None:
    history = with_a_stale_read(simulated(random.Random(seed), 60))

    assert not linearizable(history, register, "")
