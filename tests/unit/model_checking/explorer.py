"""An explicit-state model checker: all worlds that can be reached, the nearest first.

A world is real code with its ports in hand: a step lets one of its processes make one call, or lets
something fail. Code cannot be copied, so the world of a trace is made anew by repeating its steps;
worlds of the same `state` are one.
"""

from __future__ import annotations

import contextlib
import logging
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

STATES_MAX = 50_000

type Trace = tuple[str, ...]


class World(Protocol):
    """What is explored."""

    def steps(self) -> Mapping[str, Callable[[], None]]:
        """All that can happen next, by name."""
        ...

    def state(self) -> Hashable:
        """All that what happens later depends on, and what `broken` and `has_ended_well` read."""
        ...

    def broken(self) -> str:
        """The sentence that does not hold; empty if all do."""
        ...

    def has_ended_well(self) -> bool:
        """Whether everything is done that was to be done."""
        ...


@dataclass(frozen=True, slots=True)
class Explored:
    """How many states there are, or were until a sentence was broken; and the shortest trace to
    that."""

    states: int
    broken: str = ""
    trace: Trace = ()


def repeat(begin: Callable[[], World], trace: Iterable[str]) -> World:
    """A new world in which the steps of a trace have happened."""
    world = begin()
    for name in trace:
        world.steps()[name]()
    return world


@contextlib.contextmanager
def unlogged() -> Iterator[None]:
    """While it lasts nothing is logged: thousands of worlds would say the same."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@unlogged()
def explore(begin: Callable[[], World]) -> Explored:
    """Look at every state that can be reached: no sentence is broken in it, and a good end can be
    reached from it. Raises AssertionError for more states than STATES_MAX."""
    world = begin()
    traces: dict[Hashable, Trace] = {world.state(): ()}
    came_from: dict[Hashable, set[Hashable]] = defaultdict(set)
    ended_well: list[Hashable] = []
    waiting = deque([(world.state(), [*world.steps()])])
    while waiting:
        state, names = waiting.popleft()
        for name in names:
            trace = (*traces[state], name)
            world = repeat(begin, trace)
            after = world.state()
            came_from[after].add(state)
            if after in traces:
                continue
            traces[after] = trace
            assert len(traces) <= STATES_MAX, "a smaller world, please"
            if broken := world.broken():
                return Explored(len(traces), broken, trace)
            waiting.append((after, [*world.steps()]))
            if world.has_ended_well():
                ended_well.append(after)
    hopeful = {*ended_well}
    while ended_well:
        before = came_from[ended_well.pop()] - hopeful
        hopeful |= before
        ended_well += before
    stuck = next((trace for state, trace in traces.items() if state not in hopeful), None)
    return Explored(len(traces), "a good end can be reached" * (stuck is not None), stuck or ())
