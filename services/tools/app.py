"""The wiring of the tools service."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from libs.bus.service_runner import Runtime, Wire
from libs.contracts.letta.enums import ToolType
from libs.contracts.tool_runs import ToolRunStopped
from libs.encryption.sealer import Sealer
from services.tools.adapters.process_sandbox import CONFINED, VARIABLE, ProcessSandbox
from services.tools.adapters.tool_run_queries import PostgresToolRunQueries
from services.tools.engine.programs import CodeRunner
from services.tools.engine.tool_runs import ToolRunPorts, ToolRuns
from services.tools.engine.variables import Variables
from services.tools.handlers.tool_runs import ToolRunHandlers
from services.tools.handlers.tools import ToolHandlers


def wiring(environment: Mapping[str, str]) -> Wire:
    """The wiring with the sandbox that the environment wants."""
    return partial(
        wire,
        mode=environment.get(VARIABLE) or CONFINED,
        sealer=Sealer.from_environment(environment),
    )


async def wire(runtime: Runtime, *, mode: str, sealer: Sealer) -> Callable[[], Awaitable[None]]:
    """Say what the tools service answers and sweeps; returns what drains it."""
    service, bus, clock = runtime.service, runtime.bus, runtime.clock
    sandbox = ProcessSandbox(mode)
    await sandbox.start()
    runs = ToolRuns(
        ToolRunPorts(
            repository=service.repository,
            runners={ToolType.custom: CodeRunner(sandbox, sandbox.refused, Variables(sealer))},
            queries=PostgresToolRunQueries(runtime.database),
            bus=bus,
            clock=clock,
            ids=runtime.ids,
            committed=service.relay.notification.notify,
        )
    )
    await service.handle({**ToolHandlers(clock).table(), **ToolRunHandlers(runs, clock).table()})
    await bus.hear_events("tools", ToolRunStopped.topic, runs.stopped_somewhere)
    service.sweepers.append(runs.sweep)
    service.lease_watchers.append(runs.leases_held)

    async def drain() -> None:
        await runs.drain()
        await sandbox.close()

    return drain
