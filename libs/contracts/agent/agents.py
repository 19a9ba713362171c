"""The language of the agent service: agents and their tools."""

from __future__ import annotations

from operator import not_
from typing import ClassVar

from pydantic import Field

from libs.contracts.bus_messages import Command, Event, JsonObject
from libs.contracts.letta.agent_state import AgentConfig
from libs.contracts.letta.capabilities import Capability
from libs.contracts.sealed_text import Sealed
from libs.contracts.tools.base_tools.catalogue import BASE_TOOLS

SERVICE = "agent"


class AgentCommand(Command, service=SERVICE):
    """A command about one agent."""

    agent_id: str

    @property
    def target(self) -> str:
        return self.agent_id


class CreateAgent(AgentCommand, topic="agent.create"):
    """Make an agent, with its own blocks, as a V1 request describes it; of a template's deployment,
    which entity of it."""

    request: JsonObject
    deployment_id: str = Field(default="", exclude_if=not_)
    entity_id: str = Field(default="", exclude_if=not_)


class UpdateAgent(AgentCommand, topic="agent.update"):
    """Change the fields that a V1 request sets."""

    request: JsonObject


class RestoreConfiguration(AgentCommand, topic="agent.restore_configuration"):
    """Give an agent the configuration, the tools and the tags that it had in an earlier version;
    not its blocks, its secrets and its sleeptime agent."""

    version: int


class DeleteAgent(AgentCommand, topic="agent.delete"):
    """Remove an agent with its conversation, its runs and the blocks that only it has."""


class AttachBlock(AgentCommand, topic="agent.attach_block"):
    """Show a block to an agent."""

    block_id: str


class DetachBlock(AgentCommand, topic="agent.detach_block"):
    """Show a block to an agent no more."""

    block_id: str


class RecordFork(AgentCommand, topic="agent.record_fork"):
    """Remember that an agent was made from another one, in the history of one of the two."""

    origin_id: str
    fork_id: str
    cut: int


class AgentCreated(Event, service=SERVICE, topic="agent.created"):
    """An agent exists."""

    config: AgentConfig
    tools: list[str]
    tool_ids: list[str] = Field(default_factory=list, exclude_if=not_)
    tags: list[str]
    block_ids: list[str]
    own_block_ids: list[str]


class AgentAbandoned(Event, service=SERVICE, topic="agent.abandoned"):
    """An agent that was asked for did not come in time, and never will."""

    code: str
    reason: str


class AgentUpdated(Event, service=SERVICE, topic="agent.updated"):
    """An agent has a new configuration; with `restored_from` that which it had as of that event."""

    changed: list[str]
    config: AgentConfig
    tools: list[str]
    tool_ids: list[str] = Field(default_factory=list, exclude_if=not_)
    tags: list[str]
    block_ids: list[str]
    restored_from: str = Field(default="", exclude_if=not_)


class AgentDeleted(Event, service=SERVICE, topic="agent.deleted"):
    """An agent is gone; the blocks made with it may go too, if nobody else has them."""

    own_block_ids: list[str]


class AgentForked(Event, service=SERVICE, topic="agent.forked"):
    """An agent was made from another one as of a moment: the event stands in both histories.

    `cut` is the last commit of all services whose events the new one has."""

    additive: ClassVar[bool] = True
    origin_id: str
    fork_id: str
    cut: int


class BlockAttached(Event, service=SERVICE, topic="agent.block_attached"):
    """An agent sees a block; `block_ids` are all that it sees now."""

    block_id: str
    block_ids: list[str]


class BlockDetached(Event, service=SERVICE, topic="agent.block_detached"):
    """An agent sees a block no more; `block_ids` are those it still sees."""

    block_id: str
    block_ids: list[str]


class AgentSecretsReplaced(Event, service=SERVICE, topic="agent.secrets_replaced"):
    """The custom tools of an agent get these variables from now on; their values are sealed."""

    secrets: dict[str, Sealed]


# What may be called without a conversation: it changes or searches what the agent remembers.
CALLABLE_ALONE = frozenset(
    {"conversation_search", "conversation_search_date"}
    | {name for name, tool in BASE_TOOLS.items() if tool.owner == "memory"}
)


class AttachTool(AgentCommand, topic="agent.attach_tool"):
    """Let an agent have a tool."""

    tool_id: str


class DetachTool(AgentCommand, topic="agent.detach_tool"):
    """Take a tool from an agent."""

    tool_id: str


class CallTool(Command, service=SERVICE, topic="agent.call_tool"):
    """Call one of the tools in `CALLABLE_ALONE` that an agent has, without its model; the reply
    says how the call ended and what it returned."""

    call_id: str
    agent_id: str
    tool_name: str
    arguments: JsonObject

    @property
    def target(self) -> str:
        """Each call is one of its own: it may send commands to its agent."""
        return self.call_id


class DeclareCapability(AgentCommand, topic="agent.declare_capability"):
    """Record that an agent can do something, in place of what it declared under the same name."""

    capability: Capability


class WithdrawCapability(AgentCommand, topic="agent.withdraw_capability"):
    """Record that an agent does not do something any more."""

    name: str
