"""The wiring of the groups service."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.service_runner import Runtime, Wire
from libs.contracts.agent.agents import AgentDeleted
from libs.contracts.memory.blocks import BlockDeleted
from services.groups.adapters.group_queries import PostgresGroupQueries
from services.groups.handlers.groups import GroupHandlers
from services.groups.policies.group_cleanup import (
    SHARING_EVENTS,
    AttachGroupBlocks,
    DetachDeletedBlocks,
    RemoveDeletedMembers,
)


def wiring(environment: Mapping[str, str]) -> Wire:
    """The wiring; it reads no variables of its own."""
    return wire


async def wire(runtime: Runtime) -> None:
    """Register what the service answers and does."""
    groups = PostgresGroupQueries(runtime.database)
    handlers = GroupHandlers(runtime.bus, groups, runtime.clock, runtime.service.locks)
    await runtime.service.handle({**handlers.table()})
    await keep_groups_true(runtime, groups)


async def keep_groups_true(runtime: Runtime, groups: PostgresGroupQueries) -> None:
    """Have groups follow what becomes of agents and blocks."""
    service = runtime.service
    ports = (runtime.bus, groups, runtime.clock, runtime.ids)
    members, blocks, sharing = (
        RemoveDeletedMembers(*ports),
        DetachDeletedBlocks(*ports),
        AttachGroupBlocks(*ports),
    )
    await service.hear(AgentDeleted, members.look_at_all)
    await service.hear(BlockDeleted, blocks.look_at_all)
    service.repository.watch(SHARING_EVENTS, sharing.note_commit)
    service.sweepers += [members.sweep, blocks.sweep, sharing.sweep]
