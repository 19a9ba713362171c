"""Every process tells on the bus what it counts, when an api that is scraped asks for it.

So one address shows every process, however many replicas there are and wherever they run, and
nobody collects anything while nobody scrapes.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from libs.bus.ports import Clock
from libs.contracts.nats_permissions import METRICS_ASKED, METRICS_REPORTS
from libs.contracts.service_registry import names
from libs.telemetry.prometheus_exposition import Families, families, merge_families, process_name

log = logging.getLogger(__name__)

LOOK_SECONDS_MAX = 0.25  # what a process cannot find out sooner, it tells the next time
ANSWERS_SECONDS_MAX = 0.5
ANSWERS_FRESH_SECONDS = 1.0
REPORT_KEPT_SECONDS = 15.0
PROCESSES_MAX = 256


class Reporter:
    """Tells what this process counts, when it is asked."""

    def __init__(self, client: Client, service: str, look: Callable[[], Awaitable[None]]) -> None:
        self.client = client
        self.service = service
        self.look = look
        self.looking: asyncio.Task[None] | None = None

    async def listen(self) -> None:
        """Begin to answer questions about metrics."""
        await self.client.subscribe(METRICS_ASKED, cb=self.tell)

    async def tell(self, _: Msg) -> None:
        """Look at what is not counted as it happens, and tell all of it."""
        if self.looking is None or self.looking.done():
            self.looking = asyncio.create_task(self.look_once())
        await asyncio.wait([self.looking], timeout=LOOK_SECONDS_MAX)
        report = {"process": process_name(), "service": self.service, "families": families()}
        try:
            await self.client.publish(METRICS_REPORTS, json.dumps(report).encode())
        except NatsError as problem:
            log.debug("nobody hears what is counted here: %s", problem)

    async def look_once(self) -> None:
        """Look. A process edge: what goes wrong is logged."""
        try:
            await self.look()
        except Exception:
            log.exception("what %s counts cannot be looked at", self.service)


class Reports:
    """The last report of every process. One that does not answer any more is forgotten."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.client: Client | None = None
        self.reports: dict[str, tuple[float, Families]] = {}
        self.asked_at = float("-inf")
        self.asking: asyncio.Task[None] | None = None
        self.missing: set[str] = set()  # services and processes that are still to answer
        self.complete = asyncio.Event()

    async def listen(self, client: Client) -> None:
        """Hear every process from now on."""
        self.client = client
        await client.subscribe(METRICS_REPORTS, cb=self.hear)

    async def hear(self, message: Msg) -> None:
        """A process told what it counts."""
        report = json.loads(message.data)
        process = report["process"]
        if process in self.reports or len(self.reports) < PROCESSES_MAX:
            self.reports[process] = (self.clock.monotonic(), report["families"])
        self.missing -= {process, report.get("service", "")}
        if not self.missing:
            self.complete.set()

    async def text(self) -> str:
        """Everything, for Prometheus, a second old at most; of this process as it is now. A process
        that does not answer in time is shown as it was, for some seconds."""
        if self.asking is None and self.clock.monotonic() - self.asked_at > ANSWERS_FRESH_SECONDS:
            self.asking = asyncio.create_task(self.ask())
        if self.asking is not None:
            await asyncio.wait([self.asking])
        self.forget_old()
        ours = process_name()
        others = [reports for name, (_, reports) in sorted(self.reports.items()) if name != ours]
        return merge_families([families(), *others])

    async def ask(self) -> None:
        """Ask every process, and wait for all that there are, but not for long. Several scrapes at
        once share the answers."""
        self.forget_old()
        self.missing = {*names(), *self.reports}
        self.complete.clear()
        try:
            if self.client is not None:
                with suppress(NatsError, TimeoutError):
                    async with asyncio.timeout(ANSWERS_SECONDS_MAX):
                        await self.client.publish(METRICS_ASKED, b"")
                        await self.complete.wait()
        finally:
            self.asked_at = self.clock.monotonic()
            self.asking = None

    def forget_old(self) -> None:
        """Forget who answers nothing any more."""
        long_ago = self.clock.monotonic() - REPORT_KEPT_SECONDS
        self.reports = {name: chunk for name, chunk in self.reports.items() if chunk[0] > long_ago}
