"""An event loop with virtual time, on which several processes run that can crash and freeze.

Every callback belongs to a lane: to the process in whose context it was made, or to the world.
Within a lane callbacks run in the order in which they became ready, because asyncio promises that
and the code may rely on it. Between lanes the seed decides, as nothing orders two processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import sys
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any

STEPS_MAX = 300_000

MASK = (1 << 61) - 1


class Lane:
    """What one process has to do. `crash` ends it without a word, `freeze` stops it for a while."""

    def __init__(self, loop: VirtualLoop, name: str) -> None:
        self.loop = loop
        self.name = name
        self.number = len(loop.lanes)
        self.ready: deque[asyncio.Handle] = deque()
        self.alive = True
        self.frozen = False
        self.context = copy_context()
        self.context.run(OWNER.set, self)
        loop.lanes.append(self)

    def spawn[T](self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine in this process."""
        return self.loop.create_task(work, context=self.context.copy())

    def later(self, seconds: float, callback: Callable[..., object], *args: Any) -> None:
        """Call something in this process after a while, unless it has crashed by then."""
        self.loop.call_at(self.loop.now + seconds, callback, *args, context=self.context)

    def crash(self) -> None:
        """Nothing of it ever runs again: no `finally`, no cancellation."""
        self.alive = False
        self.ready.clear()
        if self in self.loop.busy:
            self.loop.busy.remove(self)

    def freeze(self) -> None:
        """Stop, as by SIGSTOP: time goes on outside."""
        self.frozen = True
        if self in self.loop.busy:
            self.loop.busy.remove(self)

    def thaw(self) -> None:
        """Go on with everything that became ready meanwhile."""
        self.frozen = False
        if self.alive and self.ready and self not in self.loop.busy:
            self.loop.busy.append(self)


OWNER: ContextVar[Lane] = ContextVar("OWNER")


class Stuck(Exception):
    """Nothing can ever happen again, or it never ends."""


class Surprise(Exception):
    """A process failed in a way that nothing in the plan explains; the cause is its exception."""


class Numbered:
    """Hashed by how many futures its loop made before, not by where in memory it is: a set of them
    has the same order each time that the world is run."""

    number: int

    def __hash__(self) -> int:
        return self.number


class NumberedFuture(Numbered, asyncio.Future[Any]):
    """A future of a virtual loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.number = loop.numbered()
        super().__init__(loop=loop)


class NumberedTask(Numbered, asyncio.Task[Any]):
    """A task of a virtual loop."""

    def __init__(self, coro: Any, loop: VirtualLoop, name: Any, context: Context | None) -> None:
        self.number = loop.numbered()
        super().__init__(coro, loop=loop, name=name, context=context)


class VirtualLoop(asyncio.AbstractEventLoop):
    """Runs callbacks in an order that follows from the seed alone; time jumps to what is next."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.steps = 0
        self.trace = seed & MASK
        self.lanes: list[Lane] = []
        self.busy: list[Lane] = []
        self.timers: list[tuple[float, int, asyncio.TimerHandle, Lane]] = []
        self.timer_count = 0
        self.future_count = 0
        self.tasks: list[asyncio.Task[Any]] = []
        self.complaints: list[str] = []
        self.over = False
        self.surprise: Surprise | None = None
        self.world = Lane(self, "world")

    def note(self, *numbers: int) -> None:
        """Make something part of the trace. Hashes of numbers are the same in every process."""
        self.trace = hash((self.trace, *numbers)) & MASK

    # Callbacks and timers

    def owner(self, context: Context | None) -> Lane:
        """Whose callback it is."""
        found = context.get(OWNER) if context is not None else OWNER.get(None)
        return found or self.world

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> Any:
        handle = asyncio.Handle(callback, args, self, context)
        if not self.over:
            self.put(self.owner(context), handle)
        return handle

    def put(self, lane: Lane, handle: asyncio.Handle) -> None:
        """A callback is ready."""
        if not lane.alive:
            return
        if not lane.ready and not lane.frozen:
            self.busy.append(lane)
        lane.ready.append(handle)

    def call_later(
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> Any:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> Any:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if not self.over:
            self.timer_count += 1
            heapq.heappush(self.timers, (when, self.timer_count, handle, self.owner(context)))
        return handle

    def run_until_complete(self, future: Any) -> Any:
        """Run the world until something is done. Raises Stuck, and the Surprise that was noted."""
        main = self.world.spawn(future)
        with self.running():
            while not main.done():
                self.step()
                if self.surprise:
                    raise self.surprise
        return main.result()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Be the running loop; abandoned generators are closed here, at once."""
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(finalizer=self.close_generator)
        events._set_running_loop(self)
        try:
            yield
        finally:
            events._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)

    def close_generator(self, generator: Any) -> None:
        """Somebody left an asynchronous generator before its end."""
        if not self.over:
            self.create_task(generator.aclose())

    def step(self) -> None:
        """Run one callback."""
        while not self.busy or (self.timers and self.timers[0][0] <= self.now):
            self.wake_next()
        place = int(self.random.random() * len(self.busy)) if len(self.busy) > 1 else 0
        lane = self.busy[place]
        handle = lane.ready.popleft()
        if not lane.ready:
            self.busy[place] = self.busy[-1]
            self.busy.pop()
        if handle.cancelled():
            return
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise Stuck(f"{STEPS_MAX} steps and no end")
        self.trace = hash((self.trace, lane.number, int(self.now * 1e6))) & MASK
        handle._run()

    def wake_next(self) -> None:
        """Let time pass until the next timer."""
        if not self.timers:
            raise Stuck("everybody waits and nothing will happen")
        when, _, handle, lane = heapq.heappop(self.timers)
        if not handle.cancelled():
            self.now = max(self.now, when)
            self.put(lane, handle)

    # What asyncio asks of a loop

    def create_task(self, coro: Any, *, name: Any = None, context: Context | None = None) -> Any:
        self.tasks.append(task := NumberedTask(coro, self, name, context))
        return task

    def create_future(self) -> asyncio.Future[Any]:
        return NumberedFuture(self)

    def numbered(self) -> int:
        """The number of a new future or task."""
        self.future_count += 1
        return self.future_count

    def time(self) -> float:
        return self.now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return self.over

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is left out when its time comes."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.over:
            self.complaints.append(f"{context['message']}: {context.get('exception')!r}")

    def unheard(self) -> list[BaseException | None]:
        """What went wrong in tasks that nobody looked at."""
        failed = [task for task in self.tasks if task.done() and not task.cancelled()]
        return [task.exception() for task in failed if task._log_traceback]  # type: ignore[attr-defined]

    def close(self) -> None:
        """The end of the world. What dead processes left is closed now, when nothing counts."""
        self.over = True
        for task in self.tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with contextlib.suppress(BaseException):
                    task.get_coro().close()  # type: ignore[union-attr]
        self.tasks.clear()
        self.timers.clear()
        for lane in self.lanes:
            lane.ready.clear()
