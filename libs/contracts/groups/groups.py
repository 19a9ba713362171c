"""The language of the groups service: agents that work together, and what they share."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from libs.contracts.bus_messages import Command, Event, JsonObject, Value

SERVICE = "groups"

# Those of V1, and two of ours: `broadcast` asks all, `intelligent` the one that fits best.
type ManagerType = Literal[
    "round_robin",
    "supervisor",
    "dynamic",
    "sleeptime",
    "voice_sleeptime",
    "swarm",
    "broadcast",
    "intelligent",
]
type StateMode = Literal["merge", "last_write_wins"]

MEMBERS_MAX = 100
SHARED_BLOCKS_MAX = 20
GROUPS_MAX = 10_000  # of one organisation
MAX_TURNS_MAX = 1_000
HOPS_MAX = 100
HOPS_DEFAULT = 25
SHARED_STATE_BYTES_MAX = 64 << 10
TERMINATION_TOKEN_DEFAULT = "DONE!"


class GroupConfig(Value):
    """The configuration of a group, without its shared state. `agent_ids` are its members in their
    order; the manager of a group is not one of them.

    `turns_counter` and `last_processed_message_id` are kept by sleeptime groups. `hops_max` bounds
    how often members answer for one message; `max_turns` is V1's bound on the turns of it, and
    bounds them alone where it is more than the first, and that is the default.
    """

    name: str | None = None
    description: str = ""
    agent_ids: list[str] = Field(default_factory=list)
    manager_type: ManagerType = "round_robin"
    manager_agent_id: str | None = None
    termination_token: str | None = None
    max_turns: int | None = None
    hops_max: int = HOPS_DEFAULT
    sleeptime_agent_frequency: int | None = None
    turns_counter: int | None = None
    last_processed_message_id: str | None = None
    max_message_buffer_length: int | None = None
    min_message_buffer_length: int | None = None
    shared_block_ids: list[str] = Field(default_factory=list)
    shared_state_mode: StateMode = "merge"
    metadata: JsonObject = Field(default_factory=dict)
    project_id: str | None = None
    template_id: str | None = None
    base_template_id: str | None = None
    deployment_id: str | None = None
    hidden: bool | None = None

    @property
    def hop_limit(self) -> int:
        """The number of times that members may answer for one message, whatever hands over."""
        if self.hops_max == HOPS_DEFAULT:
            return max(self.max_turns or 0, HOPS_DEFAULT)
        return self.hops_max


class GroupCommand(Command, service=SERVICE):
    """A command about one group."""

    group_id: str

    @property
    def target(self) -> str:
        return self.group_id


class CreateGroup(GroupCommand, topic="group.create"):
    """Make a group of agents that exist, with a shared state."""

    config: GroupConfig
    shared_state: JsonObject = Field(default_factory=dict)


class UpdateGroup(GroupCommand, topic="group.update"):
    """Change the given fields of a group, by their names in `GroupConfig`.

    The type of its manager stays; `manager_type` among the changes says which one the others are
    meant for. `agent_ids` and `shared_block_ids` replace the members and the shared blocks."""

    changes: JsonObject


class DeleteGroup(GroupCommand, topic="group.delete"):
    """Remove a group; its agents stay, without the blocks that the group has attached to them."""


class AddMember(GroupCommand, topic="group.add_member"):
    """Have an agent join a group."""

    agent_id: str


class RemoveMember(GroupCommand, topic="group.remove_member"):
    """Have an agent leave a group."""

    agent_id: str


class AttachGroupBlock(GroupCommand, topic="group.attach_block"):
    """Share a block with all agents of a group, and with those that join later."""

    block_id: str


class DetachGroupBlock(GroupCommand, topic="group.detach_block"):
    """Share a block with the agents of a group no more."""

    block_id: str


class ShareGroupBlocks(GroupCommand, topic="group.share_blocks"):
    """Attach the blocks of a group to its agents, and take back those that the group had attached
    to agents that have left it, or when it was deleted."""


class UpdateGroupState(GroupCommand, topic="group.update_state"):
    """Write the shared state of a group: a merge patch (RFC 7396), or the whole document where the
    last write wins.

    With `version` only if that is the version of the state now. Answered with `state` and
    `version`."""

    document: JsonObject
    version: int | None = None


class GroupCreated(Event, service=SERVICE, topic="group.created"):
    """A group exists."""

    config: GroupConfig
    shared_state: JsonObject = Field(default_factory=dict)
    created_by_id: str | None = None


class GroupUpdated(Event, service=SERVICE, topic="group.updated"):
    """Fields of a group's configuration have new values; members and blocks, which have events of
    their own, are among them only where their order is new."""

    changes: JsonObject


class GroupDeleted(Event, service=SERVICE, topic="group.deleted"):
    """A group is gone; its agents are not."""


class MemberAdded(Event, service=SERVICE, topic="group.member_added"):
    """An agent has joined a group, whose members are `agent_ids` now."""

    agent_id: str
    agent_ids: list[str]


class MemberRemoved(Event, service=SERVICE, topic="group.member_removed"):
    """An agent has left a group, whose members are `agent_ids` now."""

    agent_id: str
    agent_ids: list[str]


class GroupBlockAttached(Event, service=SERVICE, topic="group.block_attached"):
    """The agents of a group share a block; `block_ids` are all that they share now."""

    block_id: str
    block_ids: list[str]


class GroupBlockDetached(Event, service=SERVICE, topic="group.block_detached"):
    """The agents of a group share a block no more; `block_ids` are those that are left."""

    block_id: str
    block_ids: list[str]


class MemberBlock(Value):
    """A block that a group shares with an agent.

    It is offered first: what has become of an offer can be found out after a crash. One that the
    agent had before, or cannot have, is not taken back."""

    agent_id: str
    block_id: str
    status: Literal["offered", "shared", "had_before"] = "offered"

    @property
    def key(self) -> str:
        """The key of this pair of agent and block."""
        return f"{self.agent_id} {self.block_id}"


class MemberBlocksChanged(Event, service=SERVICE, topic="group.member_blocks_changed"):
    """Blocks of a group were offered to agents, shared with them, or taken back (`returned`)."""

    changed: list[MemberBlock] = Field(default_factory=list)
    returned: list[MemberBlock] = Field(default_factory=list)


class GroupStateUpdated(Event, service=SERVICE, topic="group.state_updated"):
    """The shared state of a group has a new value, the `version`th after its creation."""

    state: JsonObject
    version: int


def group_document(group_id: str, config: GroupConfig) -> JsonObject:
    """A group as V1 clients read it."""
    return {
        "id": group_id,
        "manager_type": config.manager_type,
        "agent_ids": [*config.agent_ids],
        "description": config.description,
        "project_id": config.project_id,
        "template_id": config.template_id,
        "base_template_id": config.base_template_id,
        "deployment_id": config.deployment_id,
        "shared_block_ids": [*config.shared_block_ids],
        "manager_agent_id": config.manager_agent_id,
        "termination_token": config.termination_token,
        "max_turns": config.max_turns,
        "sleeptime_agent_frequency": config.sleeptime_agent_frequency,
        "turns_counter": config.turns_counter,
        "last_processed_message_id": config.last_processed_message_id,
        "max_message_buffer_length": config.max_message_buffer_length,
        "min_message_buffer_length": config.min_message_buffer_length,
        "hidden": config.hidden,
    }


def agent_group_fields(config: GroupConfig, created_at: datetime) -> JsonObject:
    """The fields of `/v1/agent-groups` besides those of V1, without the shared state."""
    return {
        "name": config.name,
        "hops_max": config.hops_max,
        "shared_state_mode": config.shared_state_mode,
        "metadata": config.metadata,
        "created_at": created_at.isoformat().replace("+00:00", "Z"),
    }
