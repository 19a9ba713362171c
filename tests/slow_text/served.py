"""The application of the api, with nothing behind it: each request is read, and what it asks of the
database or the bus is answered with nothing."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from types import FrameType, SimpleNamespace
from typing import Any

from libs.bus.ports import BusUnavailable
from libs.encryption.sealer import Sealer
from libs.encryption.sealing_keys import new_key
from services.api.app import application
from services.api.http.callers import SingleOrganisation
from services.api.settings import ApiSettings
from tests.clock_and_ids import CountingIds, ManualClock
from tests.slow_text.requests import Field

GIVEN_UP_SECONDS = 3.0


class TooSlow(BaseException):
    """A request takes too much of the processor."""


class Nothing:
    """A database without a row, and a bus that nobody listens to."""

    async def fetch(self, *_: Any, **__: Any) -> list[Any]:
        """No rows."""
        return []

    async def fetch_one(self, *_: Any, **__: Any) -> None:
        """No row."""

    async def fetch_text(self, *_: Any, **__: Any) -> bytes:
        """A document without fields."""
        return b"{}"

    async def request(self, *_: Any, **__: Any) -> Any:
        """No answer."""
        raise BusUnavailable("nobody answers")

    def __getattr__(self, name: str) -> Any:
        raise BusUnavailable(name)


class AtOnce:
    """Does work on texts here, so that it counts, and without asking how long they are."""

    async def run(self, _: Any, __: int, function: Callable[..., Any], *arguments: Any) -> Any:
        """What the function returns."""
        return function(*arguments)


def nothing_behind() -> Any:
    """The application."""
    logging.disable(logging.CRITICAL)
    nothing: Any = Nothing()
    runtime: Any = SimpleNamespace(
        database=nothing, bus=nothing, clock=ManualClock(), ids=CountingIds()
    )
    settings = ApiSettings.from_environment({"HEELER_PORT": "8283"})
    app = application(settings, runtime, Sealer([new_key()]), SingleOrganisation())
    at_once: Any = AtOnce()
    works: Any = SimpleNamespace(checks=at_once, comparisons=at_once, agent_files=at_once)
    app.state.api = replace(app.state.api, text_works=works)
    return app


@dataclass(slots=True)
class Used:
    """What was used of the processor, once it is over."""

    seconds: float = 0.0


@contextmanager
def used_seconds() -> Iterator[Used]:
    """What is used of the processor within."""
    used, begin = Used(), time.process_time()
    try:
        yield used
    finally:
        used.seconds = time.process_time() - begin


@contextmanager
def given_up_after(seconds: float) -> Iterator[None]:
    """End what takes more of the processor, by raising TooSlow in it."""

    def give_up(_: int, __: FrameType | None) -> None:
        raise TooSlow

    signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


async def ask(app: Any, method: str, target: str, headers: dict[str, str], body: bytes) -> int:
    """The status of the answer to a request."""
    path, _, query = target.partition("?")
    sent: list[Any] = []
    bodies = [{"type": "http.request", "body": body, "more_body": False}]
    names = {"content-type": "application/json", **headers}
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "scheme": "http",
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in names.items()],
        "http_version": "1.1",
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8283),
        "root_path": "",
        "state": {},
    }

    async def receive() -> Any:
        return bodies.pop() if bodies else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return int(sent[0]["status"]) if sent else 0


def seconds_of(runner: asyncio.Runner, app: Any, field: Field, filling: str) -> tuple[float, int]:
    """What a request takes of the processor, and its status; 0 where it was given up or broke."""
    target, headers, body = field.request(filling)
    status = 0
    with used_seconds() as used, given_up_after(GIVEN_UP_SECONDS), suppress(Exception, TooSlow):
        status = runner.run(ask(app, field.method, target, headers, body))
    return used.seconds, status
