"""One example of each message about groups."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from libs.contracts.bus_messages import Command, Event
from libs.contracts.groups.groups import (
    AddMember,
    AttachGroupBlock,
    CreateGroup,
    DeleteGroup,
    DetachGroupBlock,
    GroupBlockAttached,
    GroupBlockDetached,
    GroupConfig,
    GroupCreated,
    GroupDeleted,
    GroupStateUpdated,
    GroupUpdated,
    MemberAdded,
    MemberBlock,
    MemberBlocksChanged,
    MemberRemoved,
    RemoveMember,
    ShareGroupBlocks,
    UpdateGroup,
    UpdateGroupState,
)

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
GROUP = "group-15151515-1515-4515-8515-151515151515"
AGENT = "agent-11111111-1111-4111-8111-111111111111"
OTHER = "agent-16161616-1616-4616-8616-161616161616"
MANAGER = "agent-17171717-1717-4717-8717-171717171717"
BLOCK = "block-22222222-2222-4222-8222-222222222222"
OTHER_BLOCK = "block-18181818-1818-4818-8818-181818181818"
CONFIG = GroupConfig(
    name="Planners",
    description="Who plans the trip",
    agent_ids=[AGENT],
    manager_type="dynamic",
    manager_agent_id=MANAGER,
    termination_token="DONE!",
    max_turns=8,
    shared_block_ids=[BLOCK],
    metadata={"team": "blue"},
    project_id="project-1",
)
PAIR = MemberBlock(agent_id=AGENT, block_id=BLOCK)

GROUP_COMMANDS: list[Command] = [
    CreateGroup(group_id=GROUP, config=CONFIG, shared_state={"city": "Turin"}),
    UpdateGroup(group_id=GROUP, changes={"description": "Who plans the next trip"}),
    DeleteGroup(group_id=GROUP),
    AddMember(group_id=GROUP, agent_id=OTHER),
    RemoveMember(group_id=GROUP, agent_id=OTHER),
    AttachGroupBlock(group_id=GROUP, block_id=OTHER_BLOCK),
    DetachGroupBlock(group_id=GROUP, block_id=OTHER_BLOCK),
    ShareGroupBlocks(group_id=GROUP),
    UpdateGroupState(group_id=GROUP, document={"city": None, "days": 3}, version=0),
]


def of_group(kind: type[Event], **fields: Any) -> Event:
    return kind(originator_id=GROUP, originator_version=1, timestamp=AT, **fields)


GROUP_EVENTS: list[Event] = [
    of_group(GroupCreated, config=CONFIG, shared_state={"city": "Turin"}, created_by_id="user-1"),
    of_group(GroupUpdated, changes={"description": "Who plans the next trip"}),
    of_group(MemberAdded, agent_id=OTHER, agent_ids=[AGENT, OTHER]),
    of_group(MemberRemoved, agent_id=OTHER, agent_ids=[AGENT]),
    of_group(GroupBlockAttached, block_id=OTHER_BLOCK, block_ids=[BLOCK, OTHER_BLOCK]),
    of_group(GroupBlockDetached, block_id=OTHER_BLOCK, block_ids=[BLOCK]),
    of_group(MemberBlocksChanged, changed=[PAIR]),
    of_group(GroupStateUpdated, state={"days": 3}, version=1),
    of_group(GroupDeleted),
]

SUBJECTS = {
    **{
        kind: f"groups.command.group.{verb}.org-1.{GROUP}"
        for kind, verb in {
            "CreateGroup": "create",
            "UpdateGroup": "update",
            "DeleteGroup": "delete",
            "AddMember": "add_member",
            "RemoveMember": "remove_member",
            "AttachGroupBlock": "attach_block",
            "DetachGroupBlock": "detach_block",
            "ShareGroupBlocks": "share_blocks",
            "UpdateGroupState": "update_state",
        }.items()
    },
    **{
        kind: f"groups.event.group.{fact}.org-1.{GROUP}"
        for kind, fact in {
            "GroupCreated": "created",
            "GroupUpdated": "updated",
            "GroupDeleted": "deleted",
            "MemberAdded": "member_added",
            "MemberRemoved": "member_removed",
            "GroupBlockAttached": "block_attached",
            "GroupBlockDetached": "block_detached",
            "MemberBlocksChanged": "member_blocks_changed",
            "GroupStateUpdated": "state_updated",
        }.items()
    },
}
