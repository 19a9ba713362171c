"""What becomes of groups when agents and blocks are deleted, and of the blocks that they share."""

from __future__ import annotations

from collections.abc import Sequence

from libs.bus.ports import request_as_service
from libs.contracts.bus_messages import Accepted, Context, Event
from libs.contracts.groups.groups import (
    DetachGroupBlock,
    GroupBlockAttached,
    GroupBlockDetached,
    GroupCreated,
    GroupDeleted,
    GroupUpdated,
    MemberAdded,
    MemberRemoved,
    RemoveMember,
    ShareGroupBlocks,
)
from libs.work.reconciliation import Correction
from services.groups.adapters.group_queries import (
    SWEPT_MAX,
    GroupQueries,
    LostPart,
    UnequalGroup,
)

# What may make the blocks of agents other than those that their group shares.
SHARING_EVENTS = (
    GroupCreated,
    GroupUpdated,
    GroupDeleted,
    MemberAdded,
    MemberRemoved,
    GroupBlockAttached,
    GroupBlockDetached,
)
COMMANDS_PER_GROUP_MAX = 30


class RemoveDeletedMembers(Correction[LostPart, GroupQueries]):
    """Takes agents that were deleted from their groups. A manager stays named: its group refuses
    messages, and says why."""

    name = "deleted members of groups"
    batch_max = SWEPT_MAX

    async def find(self, keys: list[str] | None) -> Sequence[LostPart]:
        """Members of groups that were deleted."""
        return await self.queries.lost_members(keys)

    async def mend(self, item: LostPart) -> bool:
        """Have one deleted agent leave one group."""
        command = RemoveMember(group_id=item.group_id, agent_id=item.part_id)
        return await self.send(command, item.org)


class DetachDeletedBlocks(Correction[LostPart, GroupQueries]):
    """Takes blocks that were deleted from the groups that share them."""

    name = "deleted blocks of groups"
    batch_max = SWEPT_MAX

    async def find(self, keys: list[str] | None) -> Sequence[LostPart]:
        """Shared blocks that are gone."""
        return await self.queries.lost_blocks()

    async def mend(self, item: LostPart) -> bool:
        """Have one group no longer share one deleted block."""
        command = DetachGroupBlock(group_id=item.group_id, block_id=item.part_id)
        return await self.send(command, item.org)


class AttachGroupBlocks(Correction[UnequalGroup, GroupQueries]):
    """Attaches shared blocks to agents that lack them, and takes back those of agents that left:
    also where the process that was to do it has died."""

    name = "shared blocks of groups"
    batch_max = SWEPT_MAX

    def note_commit(self, event: Event) -> None:
        """Look at a group whose agents or blocks have changed."""
        self.suspect(event.originator_id)

    async def find(self, keys: list[str] | None) -> Sequence[UnequalGroup]:
        """Groups whose shared blocks are not yet those of their agents."""
        return await self.queries.unequal_groups(keys)

    async def mend(self, item: UnequalGroup) -> bool:
        """Have the agents of one group see what it shares, a bounded number at a time."""
        for _ in range(COMMANDS_PER_GROUP_MAX):
            context = Context(self.ids.new("sweep"), org=item.org)
            command = ShareGroupBlocks(group_id=item.group_id)
            reply = await request_as_service(self.bus, command, context)
            if not isinstance(reply, Accepted):
                return False
            if not reply.result.get("left"):
                break
        return True
