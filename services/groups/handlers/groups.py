"""Commands about groups: load, decide, save, reply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from libs.bus.aggregate_locks import AggregateLocks
from libs.bus.command_dispatcher import Handler
from libs.bus.ports import Bus, Clock
from libs.contracts.bus_messages import Accepted, Command, JsonObject, Rejected
from libs.contracts.groups.groups import (
    AddMember,
    AttachGroupBlock,
    CreateGroup,
    DeleteGroup,
    DetachGroupBlock,
    RemoveMember,
    ShareGroupBlocks,
    UpdateGroup,
    UpdateGroupState,
)
from libs.eventstore.unit_of_work import UnitOfWork
from services.groups.adapters.group_queries import GroupQueries
from services.groups.domain.group import Group
from services.groups.domain.group_rules import GroupFacts
from services.groups.handlers.block_sharing import BlockSharing


class GroupHandlers:
    """What becomes of a group when the groups service is told so."""

    def __init__(
        self, bus: Bus, queries: GroupQueries, clock: Clock, locks: AggregateLocks
    ) -> None:
        self.queries = queries
        self.clock = clock
        self.locks = locks
        self.sharing = BlockSharing(bus, queries, clock)

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {
            CreateGroup: self.create_group,
            UpdateGroup: self.update_group,
            DeleteGroup: self.delete_group,
            AddMember: self.add_member,
            RemoveMember: self.remove_member,
            AttachGroupBlock: self.attach_block,
            DetachGroupBlock: self.detach_block,
            ShareGroupBlocks: self.share_blocks,
            UpdateGroupState: self.update_state,
        }

    async def create_group(self, command: CreateGroup, work: UnitOfWork) -> Accepted | Rejected:
        """Make a group of agents and blocks that exist."""
        org, actor = work.context.org, work.context.actor
        group = await work.load_new(Group, command.group_id)
        facts = await self.queries.facts(
            org, *agents_and_blocks(command.config.model_dump(mode="json"))
        )
        # Those that are made in the same moment are counted one after the other.
        await work.hold(self.locks.hold(f"groups of {org}"))
        facts = replace(facts, groups=await self.queries.group_count(org))
        return group.create(command, facts, at=self.clock.now(), actor=actor) or Accepted()

    async def update_group(self, command: UpdateGroup, work: UnitOfWork) -> Accepted | Rejected:
        """Change the given fields of a group."""
        group = await work.load(Group, command.group_id)
        facts = await self.facts(group, command.changes, work)
        return group.update(command.changes, facts, at=self.clock.now()) or Accepted()

    async def delete_group(self, command: DeleteGroup, work: UnitOfWork) -> Accepted | Rejected:
        """Remove a group; its agents stay."""
        group = await work.load(Group, command.group_id)
        return group.delete(at=self.clock.now()) or Accepted()

    async def add_member(self, command: AddMember, work: UnitOfWork) -> Accepted | Rejected:
        """Have an agent join a group."""
        group = await work.load(Group, command.group_id)
        facts = await self.facts(group, {"agent_ids": [command.agent_id]}, work)
        return group.add_member(command.agent_id, facts, at=self.clock.now()) or Accepted()

    async def remove_member(self, command: RemoveMember, work: UnitOfWork) -> Accepted | Rejected:
        """Have an agent leave a group."""
        group = await work.load(Group, command.group_id)
        return group.remove_member(command.agent_id, at=self.clock.now()) or Accepted()

    async def attach_block(
        self, command: AttachGroupBlock, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Share a block with the agents of a group."""
        group = await work.load(Group, command.group_id)
        facts = await self.facts(group, {"shared_block_ids": [command.block_id]}, work)
        return group.attach_block(command.block_id, facts, at=self.clock.now()) or Accepted()

    async def detach_block(
        self, command: DetachGroupBlock, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Share a block with the agents of a group no more."""
        group = await work.load(Group, command.group_id)
        return group.detach_block(command.block_id, at=self.clock.now()) or Accepted()

    async def share_blocks(
        self, command: ShareGroupBlocks, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Have the agents see the blocks that the group shares now; says how many are left."""
        group = await work.load(Group, command.group_id)
        left = await self.sharing.share(group, work.context)
        return Accepted(result={"left": left})

    async def update_state(
        self, command: UpdateGroupState, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Write the shared state; the answer is what it is now."""
        group = await work.load(Group, command.group_id)
        refused = group.write_state(command, at=self.clock.now())
        state: JsonObject = {
            "state": group.state.shared_state,
            "version": group.state.shared_state_version,
        }
        return refused or Accepted(result=state)

    async def facts(self, group: Group, changes: JsonObject, work: UnitOfWork) -> GroupFacts:
        """What a change of a group depends on: all that it has, and all that it is to have."""
        agents, blocks = agents_and_blocks(changes)
        now = group.present
        if now is not None:
            old_agents, old_blocks = agents_and_blocks(now.model_dump(mode="json"))
            agents, blocks = [*old_agents, *agents], [*old_blocks, *blocks]
        return await self.queries.facts(
            work.context.org, list(dict.fromkeys(agents)), list(dict.fromkeys(blocks))
        )


def agents_and_blocks(fields: JsonObject) -> tuple[list[str], list[str]]:
    """The agents and the blocks that fields of a group name."""
    agents, blocks = fields.get("agent_ids") or [], fields.get("shared_block_ids") or []
    manager = fields.get("manager_agent_id")
    assert isinstance(agents, list), "a request was read as a model"
    assert isinstance(blocks, list), "a request was read as a model"
    return [*map(str, agents), *([str(manager)] if manager else [])], [*map(str, blocks)]
