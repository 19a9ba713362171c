"""The wiring of the groups service."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.command_dispatcher import Handler
from libs.bus.moments import serve_moments
from libs.bus.service_runner import Runtime, Wire
from libs.contracts.agent.agents import AgentDeleted
from libs.contracts.agent.runs import ReviewableRunEnded, RunCancelled, RunCompleted, RunFailed
from libs.contracts.bus_messages import Command
from libs.contracts.groups.group_runs import GroupConversationForgotten
from libs.contracts.groups.groups import GroupDeleted
from libs.contracts.memory.blocks import BlockDeleted
from libs.eventstore.read_model_replay import ReadModels
from libs.work.agent_runs import AgentRuns, PostgresAgentRunQueries
from services.groups.adapters.group_message_queries import PostgresGroupMessageQueries
from services.groups.adapters.group_queries import PostgresGroupQueries
from services.groups.adapters.group_run_queries import PostgresGroupRunQueries
from services.groups.adapters.moment_aggregates import GroupMomentAggregates
from services.groups.adapters.recipient_queries import PostgresRecipientQueries
from services.groups.adapters.sleeptime_queries import PostgresSleeptimeQueries
from services.groups.engine.delivery_runs import RoutingPorts
from services.groups.engine.group_runs import GroupRunPorts, GroupRuns
from services.groups.engine.reviews import ReviewPorts, Reviews
from services.groups.engine.routing import RoutedMessages
from services.groups.handlers.group_runs import GroupRunHandlers
from services.groups.handlers.groups import GroupHandlers
from services.groups.handlers.routing import RoutingHandlers, TopicHandlers
from services.groups.handlers.sleeptime import SleeptimeHandlers, SleeptimePorts
from services.groups.policies.group_cleanup import (
    SHARING_EVENTS,
    AttachGroupBlocks,
    DetachDeletedBlocks,
    RemoveDeletedMembers,
)
from services.groups.policies.sleeptime import CountRuns, EnableWantedSleeptime, EndLostSleeptime
from services.groups.policies.topic_cleanup import UnsubscribeDeletedAgents
from services.groups.projections import READ_MODELS, project


def wiring(environment: Mapping[str, str]) -> Wire:
    """The wiring; it reads no variables of its own."""
    return wire


async def wire(runtime: Runtime) -> None:
    """Register what the service answers and does."""
    groups = PostgresGroupQueries(runtime.database)
    handlers = GroupHandlers(runtime.bus, groups, runtime.clock, runtime.service.locks)
    await runtime.service.handle(
        {
            **handlers.table(),
            **await start_routing(runtime),
            **answer_in_groups(runtime),
            **await start_sleeptime(runtime, groups),
            **serve_moments(
                runtime,
                ReadModels("groups", project, READ_MODELS),
                GroupMomentAggregates(runtime.database),
            ),
        }
    )
    await keep_groups_true(runtime, groups)
    runtime.erase_what_ended(GroupDeleted, GroupConversationForgotten)


async def keep_groups_true(runtime: Runtime, groups: PostgresGroupQueries) -> None:
    """Have groups follow what becomes of agents and blocks."""
    service = runtime.service
    ports = (runtime.bus, groups, runtime.clock, runtime.ids)
    members, blocks, sharing = (
        RemoveDeletedMembers(*ports),
        DetachDeletedBlocks(*ports),
        AttachGroupBlocks(*ports),
    )
    await members.follow(service, AgentDeleted)
    await blocks.follow(service, BlockDeleted)
    service.repository.watch(SHARING_EVENTS, sharing.note_commit)
    await sharing.follow(service, *SHARING_EVENTS)
    service.sweepers += [members.sweep, blocks.sweep, sharing.sweep]


async def start_routing(runtime: Runtime) -> Mapping[type[Command], Handler]:
    """The handlers of routed messages and topics; their engine is swept and drained."""
    queries = PostgresRecipientQueries(runtime.database)
    runs = AgentRuns(runtime.bus, PostgresAgentRunQueries(runtime.database))
    routed = RoutedMessages(RoutingPorts(**runtime.port_arguments, queries=queries, runs=runs))
    for ended in (RunCompleted, RunFailed, RunCancelled):
        await runtime.service.hear(ended, routed.run_ended)
    routed.join(runtime.service)
    topics = UnsubscribeDeletedAgents(runtime.bus, queries, runtime.clock, runtime.ids)
    await topics.follow(runtime.service, AgentDeleted)
    runtime.service.sweepers.append(topics.sweep)
    runtime.closing.push_async_callback(routed.drain)
    return {
        **RoutingHandlers(routed, queries, runtime.clock).table(),
        **TopicHandlers(queries, runtime.clock).table(),
    }


def answer_in_groups(runtime: Runtime) -> Mapping[type[Command], Handler]:
    """Have members answer messages to groups; returns the handlers of commands about that."""
    bus, clock, database = runtime.bus, runtime.clock, runtime.database
    runs = GroupRuns(
        GroupRunPorts(
            **runtime.port_arguments,
            queries=PostgresGroupRunQueries(database),
            agent_runs=AgentRuns(bus, PostgresAgentRunQueries(database)),
        )
    )
    runs.join(runtime.service)
    runtime.closing.push_async_callback(runs.drain)
    return GroupRunHandlers(runs, PostgresGroupMessageQueries(database), clock).table()


async def start_sleeptime(
    runtime: Runtime, groups: PostgresGroupQueries
) -> Mapping[type[Command], Handler]:
    """The handlers of sleeptime groups, which follow their agents; reviews are swept and
    drained."""
    service, bus, clock, ids = runtime.service, runtime.bus, runtime.clock, runtime.ids
    queries = PostgresSleeptimeQueries(runtime.database)
    runs = AgentRuns(bus, PostgresAgentRunQueries(runtime.database))
    reviews = Reviews(ReviewPorts(**runtime.port_arguments, queries=queries, runs=runs))
    reviews.join(service)
    runtime.closing.push_async_callback(reviews.drain)
    enabling = EnableWantedSleeptime(bus, queries, clock, ids)
    ending = EndLostSleeptime(bus, queries, clock, ids)
    await service.follow("agent", {ReviewableRunEnded: CountRuns(bus, queries).run_ended})
    await ending.follow(service, AgentDeleted)
    service.sweepers += [enabling.sweep, ending.sweep]
    return SleeptimeHandlers(SleeptimePorts(bus, clock, queries, groups, reviews)).table()
