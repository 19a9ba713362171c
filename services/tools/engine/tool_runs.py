"""Carry out the calls of tools, each call once, under a lease.

That a call is begun is durable before anything runs, and its end before anybody is told. Where the
process dies between, the lease of the call runs out, and a sweeper ends the call as lost: nobody
knows what it has done, so it is never made a second time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_json

from libs.bus.aggregate_locks import AggregateLocks
from libs.bus.fair_semaphore import WAIT_SECONDS_MAX
from libs.bus.ports import Bus, Clock, Ids
from libs.bus.unknown_version_delays import log_once
from libs.contracts.bus_messages import Context, JsonObject, NewerVersion
from libs.contracts.letta.tools import ToolState
from libs.contracts.tools.tool_runs import (
    KEEP_ALIVE_SECONDS,
    RunTool,
    ToolRunResult,
    tool_run_deltas,
)
from libs.eventstore.ports import Fence, StaleLease, StoreUnavailable, VersionConflict
from libs.eventstore.unit_of_work import Repository
from services.tools.adapters.tool_run_queries import ToolRunQueries
from services.tools.domain.tool_run import ToolRun
from services.tools.engine.tool_runner_protocol import ToolRunners

log = logging.getLogger(__name__)

DRAIN_SECONDS_MAX = 5.0
STORE_RETRY_SECONDS = 1.0
# How much longer a call is waited for than it may run and the wait for its turn may take: it has to
# start, and to be cleared away.
GRACE_SECONDS = 5.0


@dataclass(slots=True, kw_only=True)
class ToolRunPorts:
    """What the calls of a process need. `committed` is called after each commit; `locks` are those
    that the commands about calls are handled under."""

    repository: Repository
    runners: ToolRunners
    queries: ToolRunQueries
    bus: Bus
    clock: Clock
    ids: Ids
    committed: Callable[[], None]
    locks: AggregateLocks = field(default_factory=AggregateLocks)


@dataclass(frozen=True, slots=True)
class BegunRun:
    """A call that was begun here."""

    tool: ToolState
    command: RunTool
    context: Context

    @property
    def id(self) -> str:
        """The id of the call."""
        return self.command.tool_run_id


class ToolRuns:
    """The calls that this process makes."""

    def __init__(self, ports: ToolRunPorts) -> None:
        self.ports = ports
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.orgs: dict[str, str] = {}  # whose the call of each task is
        self.asides: set[asyncio.Task[None]] = set()
        self.missing: set[str] = set()
        self.stopping = False
        self.stopped_unseen = False
        self.looking = False

    def begin(self, run: BegunRun, epoch: int | None) -> None:
        """Carry out a call whose begin was just committed, with its lease."""
        if epoch is None:  # somebody else has it, and will see to its end
            return
        task = asyncio.create_task(self.run(run, Fence(run.id, epoch)))
        self.tasks[run.id], self.orgs[run.id] = task, run.context.org
        task.add_done_callback(lambda _: self.forget(run.id))

    def forget(self, tool_run_id: str) -> None:
        """A call is over."""
        self.tasks.pop(tool_run_id, None)
        self.orgs.pop(tool_run_id, None)

    async def run(self, run: BegunRun, fence: Fence) -> None:
        """Carry a call out, record what came of it, and tell whoever waits. A process edge: a bug
        is logged here, once, and the call is ended."""
        subject = tool_run_deltas(run.context.org, run.id)
        alive = asyncio.create_task(self.keep_alive(subject))
        try:
            result = await self.result(run)
            if await self.record(run, fence, result):
                await self.tell(subject, {"result": result.model_dump(mode="json")})
        except asyncio.CancelledError:
            await self.give_back(fence)
            raise
        except Exception:
            log.exception("%s is not recorded as ended", run.id)
            await self.give_back(fence)
        finally:
            alive.cancel()

    async def give_back(self, fence: Fence) -> None:
        """Renew a lease no more: the sweeper of some process ends its call."""
        with contextlib.suppress(StoreUnavailable):
            await self.ports.repository.store.release_lease(fence)

    async def result(self, run: BegunRun) -> ToolRunResult:
        """What came of the call."""
        since = self.ports.clock.monotonic()
        tool, command = run.tool, run.command
        seconds = command.seconds_max + WAIT_SECONDS_MAX + GRACE_SECONDS
        try:
            async with asyncio.timeout(seconds):
                runner = self.ports.runners[tool.tool_type]
                return await runner.run(tool, command, run.context.org)
        except TimeoutError:
            text = f"'{tool.name}' did not end within {command.seconds_max:g} seconds"
            return ToolRunResult(status="timeout", text=text, seconds=seconds)
        except Exception:
            log.exception("the call %s of %s failed", run.id, tool.id)
            took = self.ports.clock.monotonic() - since
            text = f"'{tool.name}' could not be run: the server failed. It may have taken effect."
            return ToolRunResult(status="error", text=text, seconds=took)

    async def record(self, run: BegunRun, fence: Fence, result: ToolRunResult) -> bool:
        """Make the end of a call durable, however long the store is away; returns whether it ended
        so, and not otherwise before."""
        while True:
            work = self.ports.repository.work(run.context.caused(self.ports.ids.new("end")))
            try:
                async with self.ports.locks.hold(run.id):
                    call = await work.load(ToolRun, run.id)
                    ends = call.running
                    call.end(result, at=self.ports.clock.now())
                    await work.commit(fence=fence, release_lease=True)
                self.ports.committed()
            except VersionConflict:
                continue
            except StaleLease:
                log.info("%s was ended elsewhere", run.id)
                return False
            except StoreUnavailable as outage:
                log.warning("%s waits for the store: %s", run.id, outage)
                await self.ports.clock.sleep(STORE_RETRY_SECONDS)
                continue
            return ends

    async def keep_alive(self, subject: str) -> None:
        """Tell whoever waits that there is something to wait for."""
        while True:
            await self.tell(subject, {})
            await self.ports.clock.sleep(KEEP_ALIVE_SECONDS)

    async def tell(self, subject: str, told: JsonObject) -> None:
        """Tell whoever waits."""
        await self.ports.bus.publish_delta(subject, to_json(told))

    def refused(self, tool_run_id: str, org: str, result: ToolRunResult) -> None:
        """Tell whoever waits for a call that it is not made."""
        told: JsonObject = {"result": result.model_dump(mode="json")}
        self.aside(self.tell(tool_run_deltas(org, tool_run_id), told))

    def aside(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that nobody waits for."""
        task = asyncio.create_task(work)
        self.asides.add(task)
        task.add_done_callback(self.asides.discard)

    def stopped(self, tool_run_id: str) -> None:
        """It is recorded that nobody waits for a call any more: end it, if it is one of these."""
        task = self.tasks.get(tool_run_id)
        if task is not None:
            task.cancel()

    def stopped_somewhere(self) -> None:
        """A call was stopped; if it is made here, end it. However many are stopped while somebody
        looks, one more look follows."""
        self.stopped_unseen = True
        if self.tasks and not self.looking:
            self.looking = True
            self.aside(self.stop_ended())

    async def stop_ended(self) -> None:
        """End the calls that were stopped in another process."""
        try:
            while self.stopped_unseen:
                self.stopped_unseen = False
                orgs, ids = sorted(set(self.orgs.values())), list(self.tasks)
                with contextlib.suppress(StoreUnavailable):
                    for gone in await self.ports.queries.stopped_runs(orgs, ids):
                        self.stopped(gone)
        finally:
            self.looking = False

    def leases_held(self, held: set[str]) -> None:
        """End what somebody else has ended as lost. A lease that is missing for the first time may
        have just been given back."""
        missing = set(self.tasks) - held
        for one in missing & self.missing:
            self.stopped(one)
        self.missing = missing

    async def sweep(self) -> None:
        """End the calls whose process has died."""
        if self.stopping:
            return
        for orphan in await self.ports.queries.orphaned_runs():
            if orphan.id in self.tasks:
                continue
            epoch = await self.ports.repository.store.take_lease(orphan.id)
            if epoch is None:
                continue
            fence = Fence(orphan.id, epoch)
            if not await self.lose(orphan.id, orphan.org, fence):
                await self.give_back(fence)  # else it is renewed for ever, with nobody at work

    async def lose(self, tool_run_id: str, org: str, fence: Fence) -> bool:
        """End a call as lost, if it has not ended, and clear its lease away; returns whether that
        was done."""
        work = self.ports.repository.work(Context(self.ports.ids.new("sweep"), org=org))
        try:
            async with self.ports.locks.hold(tool_run_id):
                call = await work.load(ToolRun, tool_run_id)
                if call.running:
                    log.warning("%s is lost: its process has died", tool_run_id)
                call.lose(at=self.ports.clock.now())
                await work.commit(fence=fence, release_lease=True)
            self.ports.committed()
        except NewerVersion as unknown:
            log_once(unknown)
        except (VersionConflict, StaleLease):
            log.info("%s was ended elsewhere", tool_run_id)
        except StoreUnavailable as outage:
            log.warning("%s is not ended as lost yet: %s", tool_run_id, outage)
        else:
            return True
        return False

    async def drain(self) -> None:
        """Let the calls end for a moment, then give them up: the sweeper of another process ends
        them as lost."""
        self.stopping = True
        if self.tasks:
            await asyncio.wait(self.tasks.values(), timeout=DRAIN_SECONDS_MAX)
        for task in list(self.tasks.values()):
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)
