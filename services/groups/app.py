"""The wiring of the groups service."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.command_dispatcher import Handler
from libs.bus.service_runner import Runtime, Wire
from libs.contracts.agent.runs import RunCancelled, RunCompleted, RunFailed
from libs.contracts.bus_messages import Command
from libs.work.agent_runs import AgentRuns, PostgresAgentRunQueries
from services.groups.adapters.recipient_queries import PostgresRecipientQueries
from services.groups.engine.routing import RoutedMessages, RoutingPorts
from services.groups.handlers.routing import RoutingHandlers, TopicHandlers


def wiring(environment: Mapping[str, str]) -> Wire:
    """The wiring; it reads no variables of its own."""
    return wire


async def wire(runtime: Runtime) -> None:
    """Register what the service answers and does."""
    await runtime.service.handle(await start_routing(runtime))


async def start_routing(runtime: Runtime) -> Mapping[type[Command], Handler]:
    """The handlers of routed messages and topics; their engine is swept and drained."""
    queries = PostgresRecipientQueries(runtime.database)
    runs = AgentRuns(runtime.bus, PostgresAgentRunQueries(runtime.database), runtime.clock)
    routed = RoutedMessages(RoutingPorts(**runtime.port_arguments, queries=queries, runs=runs))
    for ended in (RunCompleted, RunFailed, RunCancelled):
        await runtime.service.hear(ended, routed.run_ended)
    routed.join(runtime.service)
    runtime.closing.push_async_callback(routed.drain)
    return {
        **RoutingHandlers(routed, queries, runtime.clock).table(),
        **TopicHandlers(queries, runtime.clock).table(),
    }
