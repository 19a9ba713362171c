"""The wiring of the scheduler service."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.service_runner import Runtime, Wire
from libs.contracts.agent.agents import AgentDeleted
from libs.contracts.scheduler.schedules import ScheduleCompleted, ScheduleDeleted
from libs.work.agent_runs import AgentRuns, PostgresAgentRunQueries
from services.scheduler.adapters.agent_tools import PostgresAgentTools
from services.scheduler.adapters.schedule_queries import PostgresScheduleQueries
from services.scheduler.engine.actions import Actions
from services.scheduler.engine.firings import FiringPorts, Firings
from services.scheduler.handlers.schedules import ScheduleHandlers, SchedulePorts
from services.scheduler.policies.schedule_cleanup import OutdatedSchedules, ScheduleCleanup


def wiring(environment: Mapping[str, str]) -> Wire:
    """The wiring; it reads no variables of its own."""
    return wire


async def wire(runtime: Runtime) -> None:
    """Register what the service answers and does."""
    service, database = runtime.service, runtime.database
    queries, tools = PostgresScheduleQueries(database), PostgresAgentTools(database)
    runs = AgentRuns(runtime.bus, PostgresAgentRunQueries(database))
    actions = Actions(runtime.bus, runs, tools, queries, runtime.clock)
    firings = Firings(FiringPorts(**runtime.port_arguments, queries=queries, actions=actions))
    firings.join(service)
    runtime.closing.push_async_callback(firings.drain)
    handlers = ScheduleHandlers(
        SchedulePorts(**runtime.port_arguments, queries=queries, tools=tools)
    )
    await service.handle(handlers.table())
    cleanup = ScheduleCleanup(queries, runtime.bus, runtime.clock, runtime.ids)
    await cleanup.follow(service, AgentDeleted)
    outdated = OutdatedSchedules(queries, runtime.bus, runtime.clock, runtime.ids)
    await outdated.follow(service, ScheduleCompleted)
    runtime.erase_what_ended(ScheduleDeleted)
    for policy in (cleanup, outdated):
        service.sweepers.append(policy.sweep)
