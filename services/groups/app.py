"""The wiring of the groups service."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.command_dispatcher import Handler
from libs.bus.service_runner import Runtime, Wire
from libs.contracts.bus_messages import Command
from libs.work.agent_runs import AgentRuns, PostgresAgentRunQueries
from services.groups.adapters.group_message_queries import PostgresGroupMessageQueries
from services.groups.adapters.group_run_queries import PostgresGroupRunQueries
from services.groups.engine.group_runs import GroupRunPorts, GroupRuns
from services.groups.handlers.group_runs import GroupRunHandlers


def wiring(environment: Mapping[str, str]) -> Wire:
    """The wiring; it reads no variables of its own."""
    return wire


async def wire(runtime: Runtime) -> None:
    """Register what the service answers and does."""
    await runtime.service.handle({**answer_in_groups(runtime)})


def answer_in_groups(runtime: Runtime) -> Mapping[type[Command], Handler]:
    """Have members answer messages to groups; returns the handlers of commands about that."""
    bus, clock, database = runtime.bus, runtime.clock, runtime.database
    runs = GroupRuns(
        GroupRunPorts(
            **runtime.port_arguments,
            queries=PostgresGroupRunQueries(database),
            agent_runs=AgentRuns(bus, PostgresAgentRunQueries(database), clock),
        )
    )
    runs.join(runtime.service)
    runtime.closing.push_async_callback(runs.drain)
    return GroupRunHandlers(runs, PostgresGroupMessageQueries(database), clock).table()
