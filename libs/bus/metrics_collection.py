"""Every process tells on the bus what it counts; an api that is scraped answers for all.

So one address shows every process, however many replicas there are and wherever they run, and a
scrape waits for nobody. What a process told is a few seconds old at most.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from libs.bus.ports import Clock
from libs.contracts.nats_permissions import METRICS_REPORTS
from libs.telemetry.prometheus_exposition import PROCESS, Families, families, merged

log = logging.getLogger(__name__)

REPORT_SECONDS = 5.0
REPORT_KEPT_SECONDS = 3 * REPORT_SECONDS
PROCESSES_MAX = 256


class Reporter:
    """Tells what this process counts."""

    def __init__(self, client: Client, look: Callable[[], Awaitable[None]], clock: Clock) -> None:
        self.client = client
        self.look = look
        self.clock = clock

    async def turn(self) -> None:
        """Look, tell, and rest."""
        await self.look()
        report = {"process": PROCESS, "families": families()}
        try:
            await self.client.publish(METRICS_REPORTS, json.dumps(report).encode())
        except NatsError as problem:
            log.debug("nobody hears what is counted here: %s", problem)
        await self.clock.sleep(REPORT_SECONDS)


class Reports:
    """What every process told last. One that says nothing any more is forgotten."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.told: dict[str, tuple[float, Families]] = {}

    async def listen(self, client: Client) -> None:
        """Hear every process from now on."""
        await client.subscribe(METRICS_REPORTS, cb=self.hear)

    async def hear(self, message: Msg) -> None:
        """A process told what it counts."""
        report = json.loads(message.data)
        if report["process"] in self.told or len(self.told) < PROCESSES_MAX:
            self.told[report["process"]] = (self.clock.monotonic(), report["families"])

    def text(self) -> str:
        """Everything, for Prometheus; of this process as it is now."""
        long_ago = self.clock.monotonic() - REPORT_KEPT_SECONDS
        self.told = {name: one for name, one in self.told.items() if one[0] > long_ago}
        others = [told for name, (_, told) in sorted(self.told.items()) if name != PROCESS]
        return merged([families(), *others])
