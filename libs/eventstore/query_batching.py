"""Answer many questions with one query: those that are asked while queries run go together in
the next. A question alone waits for nobody; in a batch, each costs a fraction of a query."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context

from libs.eventstore.ports import StoreUnavailable
from libs.telemetry.tracing import statement, tracer

QUESTIONS_MAX = 128
BATCH_BYTES_MAX = 8 << 20


class Batched[Q, A]:
    """Questions of one kind. `ask` gets a list of questions and gives their answers, in order.

    One query runs at a time. Traces see each question, by what `called` says, for as long as it
    waited for its answer. `touches` names what a question must have for itself: of two that touch
    the same thing the later one waits for another query. `size` is how many bytes it has.

    If a query is refused, each of its questions is asked again by itself: one that cannot be
    answered does not cost the others their answer.
    """

    def __init__(
        self,
        ask: Callable[[list[Q]], Awaitable[list[A]]],
        *,
        touches: Callable[[Q], set[str]] = lambda _: set(),
        size: Callable[[Q], int] = lambda _: 0,
        called: Callable[[Q], str],
    ) -> None:
        self.ask = ask
        self.touches = touches
        self.size = size
        self.called = called
        self.waiting: list[tuple[Q, asyncio.Future[A]]] = []
        self.asker: asyncio.Task[None] | None = None

    async def answer(self, question: Q) -> A:
        """The answer to one question."""
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self.waiting.append((question, future))
        if self.asker is None:
            # In a context of its own: it will ask for others than who happened to begin it.
            self.asker = asyncio.create_task(self.ask_all(), context=Context())
        if tracer() is None:
            return await future
        with statement(self.called(question)):
            return await future

    async def ask_all(self) -> None:
        """Ask until nobody waits. It counts as over in the same moment in which nobody does, so
        that whoever asks next is not left to a task that has stopped looking."""
        try:
            while self.waiting:
                await self.ask_batch(self.next_batch())
        finally:
            self.asker = None

    def next_batch(self) -> list[tuple[Q, asyncio.Future[A]]]:
        """Those that wait and can go together, the longest waiting first."""
        batch: list[tuple[Q, asyncio.Future[A]]] = []
        left: list[tuple[Q, asyncio.Future[A]]] = []
        touched: set[str] = set()
        room = BATCH_BYTES_MAX
        for waiting in self.waiting:
            wants = self.touches(waiting[0])
            fits = len(batch) < QUESTIONS_MAX and room > 0 and not wants & touched
            (batch if fits else left).append(waiting)
            if fits:
                touched |= wants
                room -= self.size(waiting[0])
        self.waiting = left
        return batch

    async def ask_batch(self, batch: list[tuple[Q, asyncio.Future[A]]]) -> None:
        """Ask one query's worth of questions."""
        try:
            answers = await self.ask([question for question, _ in batch])
        except BaseException as problem:
            if len(batch) > 1 and is_refusal(problem):
                for item in batch:
                    await self.ask_batch([item])
                return
            for _, future in batch:
                if not future.done():
                    future.set_exception(problem)
            if not isinstance(problem, Exception):
                raise
            return
        for (_, future), answer in zip(batch, answers, strict=True):
            if not future.done():
                future.set_result(answer)


def is_refusal(problem: BaseException) -> bool:
    """Whether a query failed because of what was asked, maybe by one of many."""
    return isinstance(problem, Exception) and not isinstance(problem, StoreUnavailable)
