"""Answer many questions with one query: those that are asked while a query runs go together in
the next. Alone, a question waits for nobody; in a crowd, a query costs each a fraction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

QUESTIONS_MAX = 128


class Gathered[Q, A]:
    """Questions of one kind. `ask` gets a list of questions and gives their answers, in order."""

    def __init__(self, ask: Callable[[list[Q]], Awaitable[list[A]]]) -> None:
        self.ask = ask
        self.waiting: list[tuple[Q, asyncio.Future[A]]] = []
        self.asking: asyncio.Task[None] | None = None

    async def answer(self, question: Q) -> A:
        """The answer to one question; whatever the query raises, everybody in it gets."""
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self.waiting.append((question, future))
        if self.asking is None:
            self.asking = asyncio.create_task(self.ask_all())
        return await future

    async def ask_all(self) -> None:
        """Ask until nobody waits."""
        try:
            while self.waiting:
                batch = self.waiting[:QUESTIONS_MAX]
                del self.waiting[:QUESTIONS_MAX]
                await self.ask_batch(batch)
        finally:
            self.asking = None

    async def ask_batch(self, batch: list[tuple[Q, asyncio.Future[A]]]) -> None:
        """Ask one query's worth of questions."""
        try:
            answers = await self.ask([question for question, _ in batch])
        except BaseException as problem:
            for _, future in batch:
                if not future.done():
                    future.set_exception(problem)
            if not isinstance(problem, Exception):
                raise
            return
        for (_, future), answer in zip(batch, answers, strict=True):
            if not future.done():
                future.set_result(answer)
