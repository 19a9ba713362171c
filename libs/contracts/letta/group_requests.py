"""The bodies that make and change groups: those of V1, and those with what V1 lacks."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, model_validator
from pydantic_core import PydanticCustomError

from libs.contracts.bus_messages import JsonObject
from libs.contracts.groups.groups import (
    HOPS_DEFAULT,
    HOPS_MAX,
    MAX_TURNS_MAX,
    MEMBERS_MAX,
    SHARED_BLOCKS_MAX,
    TERMINATION_TOKEN_DEFAULT,
    StateMode,
)
from libs.contracts.letta.agent_requests import BlockId, id_of
from libs.contracts.letta.request_size_limits import INTEGER_MAX, Integer, Metadata, Name, Text

FREQUENCY_MAX = 1_000_000
TOKEN_CHARS_MAX = 500

type AgentId = Annotated[str, id_of("agent")]
type Members = Annotated[list[AgentId], Field(max_length=MEMBERS_MAX)]
type SharedBlocks = Annotated[list[BlockId], Field(max_length=SHARED_BLOCKS_MAX)]
type Turns = Annotated[int, Field(ge=1, le=MAX_TURNS_MAX)]
type Hops = Annotated[int, Field(ge=1, le=HOPS_MAX)]
type Frequency = Annotated[int, Field(ge=1, le=FREQUENCY_MAX)]
type Token = Annotated[str, Field(min_length=1, max_length=TOKEN_CHARS_MAX)]

# What some manager type is told: nothing else may be told it, since it would have no effect.
SETTINGS = frozenset(
    {
        "manager_agent_id",
        "termination_token",
        "max_turns",
        "sleeptime_agent_frequency",
        "max_message_buffer_length",
        "min_message_buffer_length",
    }
)


class ManagerConfig(BaseModel):
    """The turns of a group's members. A setting of another manager type is refused."""

    @model_validator(mode="before")
    @classmethod
    def _without_effect(cls, sent: Any) -> Any:
        if not isinstance(sent, dict):
            return sent
        given = {name for name in SETTINGS & sent.keys() if sent[name] is not None}
        if wrong := sorted(given - cls.model_fields.keys()):
            raise PydanticCustomError(
                "no_effect",
                "`{field}` has no effect for the manager type {type}: leave it out",
                {"field": wrong[0], "type": str(sent.get("manager_type"))},
            )
        return sent


class RoundRobinManager(ManagerConfig):
    """Members answer one after the other."""

    manager_type: Literal["round_robin"] = "round_robin"
    max_turns: Turns | None = None


class SupervisorManager(ManagerConfig):
    """A manager asks the members by a tool, and answers."""

    manager_type: Literal["supervisor"] = "supervisor"
    manager_agent_id: AgentId


class DynamicManager(ManagerConfig):
    """A manager picks who speaks next, until it says the termination token."""

    manager_type: Literal["dynamic"] = "dynamic"
    manager_agent_id: AgentId
    termination_token: Token | None = TERMINATION_TOKEN_DEFAULT
    max_turns: Turns | None = None


class SleeptimeManager(ManagerConfig):
    """Members work in the background on what the manager was told."""

    manager_type: Literal["sleeptime"] = "sleeptime"
    manager_agent_id: AgentId
    sleeptime_agent_frequency: Frequency | None = None


class VoiceSleeptimeManager(ManagerConfig):
    """Members work in the background for an agent that speaks."""

    manager_type: Literal["voice_sleeptime"] = "voice_sleeptime"
    manager_agent_id: AgentId
    max_message_buffer_length: Integer | None = None
    min_message_buffer_length: Integer | None = None


class SwarmManager(ManagerConfig):
    """Members hand over to each other by a tool."""

    manager_type: Literal["swarm"] = "swarm"
    max_turns: Turns | None = None


class BroadcastManager(ManagerConfig):
    """All members answer."""

    manager_type: Literal["broadcast"] = "broadcast"


class IntelligentManager(ManagerConfig):
    """The model picks the member that fits best: that of the manager, or of the first member."""

    manager_type: Literal["intelligent"] = "intelligent"
    manager_agent_id: AgentId | None = None


class SupervisorManagerUpdate(SupervisorManager):
    """A change of a supervisor group."""

    manager_agent_id: AgentId | None = None  # type: ignore[assignment]


class DynamicManagerUpdate(DynamicManager):
    """A change of a dynamic group."""

    manager_agent_id: AgentId | None = None  # type: ignore[assignment]
    termination_token: Token | None = None


class SleeptimeManagerUpdate(SleeptimeManager):
    """A change of a sleeptime group."""

    manager_agent_id: AgentId | None = None  # type: ignore[assignment]


class VoiceSleeptimeManagerUpdate(VoiceSleeptimeManager):
    """A change of a sleeptime group for voice."""

    manager_agent_id: AgentId | None = None  # type: ignore[assignment]


type AnyManager = Annotated[
    RoundRobinManager
    | SupervisorManager
    | DynamicManager
    | SleeptimeManager
    | VoiceSleeptimeManager
    | SwarmManager
    | BroadcastManager
    | IntelligentManager,
    Field(discriminator="manager_type"),
]
type AnyManagerUpdate = Annotated[
    RoundRobinManager
    | SupervisorManagerUpdate
    | DynamicManagerUpdate
    | SleeptimeManagerUpdate
    | VoiceSleeptimeManagerUpdate
    | SwarmManager
    | BroadcastManager
    | IntelligentManager,
    Field(discriminator="manager_type"),
]


class GroupCreate(BaseModel):
    """A new group of agents."""

    agent_ids: Members
    description: Text
    manager_config: AnyManager = RoundRobinManager()
    project_id: Name | None = None
    shared_block_ids: SharedBlocks = []
    hidden: bool | None = None


class GroupUpdate(BaseModel):
    """A change to a group; what is null stays."""

    agent_ids: Members | None = None
    description: Text | None = None
    manager_config: AnyManagerUpdate | None = None
    project_id: Name | None = None
    shared_block_ids: SharedBlocks | None = None


class AgentGroupCreate(GroupCreate):
    """A new group of agents, with a name and a shared state."""

    name: Name | None = None
    description: Text = ""
    shared_state: Metadata = {}
    shared_state_mode: StateMode = "merge"
    hops_max: Hops = HOPS_DEFAULT
    metadata: Metadata = {}


class AgentGroupUpdate(GroupUpdate):
    """A change to a group; what is null stays."""

    name: Name | None = None
    shared_state_mode: StateMode | None = None
    hops_max: Hops | None = None
    metadata: Metadata | None = None
    hidden: bool | None = None


class GroupMemberCreate(BaseModel):
    """An agent that is to join a group."""

    agent_id: AgentId


class GroupStateUpdate(BaseModel):
    """A write to the shared state of a group: a merge patch, or the whole document where the last
    write wins; with `version` only if that is its version now."""

    state: Metadata
    version: Annotated[int, Field(ge=0, le=INTEGER_MAX)] | None = None


def config_fields(body: GroupCreate | GroupUpdate) -> JsonObject:
    """The fields of a request about a group, as those of `GroupConfig`; null means none."""
    said: JsonObject = body.model_dump(mode="json", exclude={"manager_config", "shared_state"})
    if body.manager_config is not None:
        said |= body.manager_config.model_dump(mode="json")
    return {name: value for name, value in said.items() if value is not None}
