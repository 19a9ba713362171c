"""Whether a history of concurrent operations could have happened one after the other.

The search is Wing and Gong's, with Lowe's memory of what was tried: an operation may be the next
one if nothing that is left to place returned before it was called. Porcupine and Knossos do the
same. An operation whose answer got lost may take effect at any later time, or never.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

UNKNOWN = math.inf


@dataclass(frozen=True, slots=True)
class Operation:
    """`write` or `append` a value, or `read`, where the value is what was seen."""

    kind: str
    value: Hashable
    called: float
    returned: float = UNKNOWN

    @property
    def certain(self) -> bool:
        """Whether it is known to have taken effect."""
        return self.returned != UNKNOWN


# The state after an operation, or None where it could not have happened in that state.
Model = Callable[[Hashable, Operation], Hashable | None]


def register(state: Hashable, operation: Operation) -> Hashable | None:
    """A cell: a read sees what was written last."""
    if operation.kind == "write":
        return operation.value
    return state if operation.value == state else None


def log(state: Hashable, operation: Operation) -> Hashable | None:
    """A list that only grows: a read sees all that was appended, in order."""
    assert isinstance(state, tuple)
    if operation.kind == "append":
        return (*state, operation.value)
    return state if operation.value == state else None


def linearizable(history: Sequence[Operation], model: Model, initial: Hashable) -> bool:
    """Whether there is an order that explains what everybody saw."""
    seen = values_seen(history)
    # Without an answer a read says nothing, and what nobody saw need not have happened.
    operations = [
        operation
        for operation in history
        if operation.certain or (operation.kind != "read" and operation.value in seen)
    ]
    operations.sort(key=lambda operation: operation.called)
    certain = sum(1 << n for n, operation in enumerate(operations) if operation.certain)
    tried: set[tuple[int, Hashable]] = set()
    waiting: list[tuple[int, Hashable]] = [(0, initial)]
    while waiting:
        placed, state = waiting.pop()
        if placed & certain == certain:
            return True
        steps = [
            (n, after)
            for n in next_ones(operations, placed)
            if (after := model(state, operations[n])) is not None
        ]
        # A read that fits changes nothing, so nothing is missed by placing it here and now.
        for n, after in [step for step in steps if operations[step[0]].kind == "read"][:1] or steps:
            step = (placed | 1 << n, after)
            if step not in tried:
                tried.add(step)
                waiting.append(step)
    return False


def values_seen(history: Sequence[Operation]) -> set[Hashable]:
    """What reads saw: of a cell its value, of a list its entries."""
    seen: set[Hashable] = set()
    for operation in history:
        if operation.kind == "read" and operation.certain:
            seen |= (
                set(operation.value) if isinstance(operation.value, tuple) else {operation.value}
            )
    return seen


def next_ones(operations: list[Operation], placed: int) -> list[int]:
    """Those that nothing else must come before. What is tried last is looked into first: so the
    ones of unknown outcome stand in front, for most of them are needed by no one."""
    found: list[int] = []
    first_return = UNKNOWN
    for n, operation in enumerate(operations):
        if operation.called > first_return:
            break
        if not placed >> n & 1:
            found.append(n)
            first_return = min(first_return, operation.returned)
    found = [n for n in found if operations[n].called <= first_return]
    return sorted(found, key=lambda n: (operations[n].certain, -operations[n].called))
