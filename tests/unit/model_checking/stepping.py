"""Processes whose code stops before each call of a port, until the explorer lets it go on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Generator, Hashable, Mapping
from inspect import iscoroutinefunction
from typing import Any

from libs.bus.ports import BusUnavailable
from libs.eventstore.ports import StoreUnavailable

# How a call goes: it is made; it is not, and fails; it is made, and fails all the same.
DONE, LOST, UNANSWERED = "is done", "is lost", "is done, and its answer is lost"
OUTAGES = (StoreUnavailable, BusUnavailable)


class Process:
    """One process: at most one thing that it does, and which call that waits to make."""

    def __init__(self) -> None:
        self.work: Coroutine[Any, str, Any] | None = None
        self.call = ""
        # What its code has seen since it began. With where it began, that is all that it is.
        self.seen: list[Hashable] = []
        self.ended = False

    @property
    def is_idle(self) -> bool:
        return self.work is None

    def begin(self, work: Coroutine[Any, str, Any], *where: Hashable) -> None:
        """Begin a work, and run it up to its first call."""
        self.work, self.seen = work, [where]
        self.go_on(None)

    def go_on(self, how: str | None) -> None:
        """Let the call that waits go this way, and run up to the next one. A work that ends with an
        outage is over: whoever asked for it asks again."""
        assert self.work is not None
        try:
            self.call = self.work.send(how)
        except (StopIteration, *OUTAGES):
            self.work, self.call, self.seen = None, "", []

    def steps(self, name: str, ways: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
        """The ways that the call can go which waits; all can be done, some can fail."""
        if self.is_idle:
            return {}
        return {f"{name}: {self.call} {how}": how for how in (DONE, *ways.get(self.call, ()))}


class Pause:
    """Waits to hear how a call goes."""

    def __init__(self, process: Process, call: str) -> None:
        self.process, self.call = process, call

    def __await__(self) -> Generator[str, str, str]:
        if self.process.ended:
            raise GeneratorExit  # its world is gone, and what it would tidy up with it
        try:
            return (yield self.call)
        except GeneratorExit:
            self.process.ended = True
            raise


class Steps:
    """A port whose calls wait for the explorer: all, or those of the names in `waiting`. The
    others happen together with the call before them."""

    def __init__(
        self,
        port: Any,
        process: Process,
        outage: type[Exception],
        waiting: Collection[str] | None = None,
    ) -> None:
        self.port, self.process, self.outage, self.waiting = port, process, outage, waiting

    def __getattr__(self, name: str) -> Any:
        made = getattr(self.port, name)
        return self.stepping(name, made) if iscoroutinefunction(made) else made

    def stepping(self, name: str, made: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*arguments: Any, **named: Any) -> Any:
            waits = self.waiting is None or name in self.waiting
            how = await Pause(self.process, name) if waits else DONE
            if how == LOST:
                self.process.seen.append(how)
                raise self.outage(name)
            try:
                result = await made(*arguments, **named)
            except Exception as error:
                self.process.seen.append(repr(error))
                raise
            self.process.seen.append(how if how == UNANSWERED else repr(result))
            if how == UNANSWERED:
                raise self.outage(name)
            return result

        return call
