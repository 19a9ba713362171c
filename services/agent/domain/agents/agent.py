"""An agent: its configuration, its tools, and which blocks it sees."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from libs.contracts.agent.agents import (
    AgentAbandoned,
    AgentCreated,
    AgentDeleted,
    AgentForked,
    AgentSecretsReplaced,
    AgentUpdated,
    BlockAttached,
    BlockDetached,
    RecordFork,
)
from libs.contracts.agent.conversations import BoundTool, Message
from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import (
    CONFLICT,
    INVALID,
    NOT_FOUND,
    UNPROCESSABLE,
    Event,
    Rejected,
)
from libs.contracts.letta.agent_requests import CreateAgent, UpdateAgent
from libs.contracts.letta.agent_state import AgentConfig
from libs.contracts.letta.blocks import BlockState
from libs.contracts.sealed_text import all_sealed
from libs.contracts.state_size_limits import size
from libs.contracts.tools.base_tools.definition import tool_ids_of
from services.agent.domain.tools.custom_tools import CustomTool, HeldTool, held_tools

AGENT_BLOCKS_MAX = 500

Phase = Literal["unknown", "requested", "abandoned", "present", "deleted"]


class AgentDesign(BaseModel):
    """The design of an agent, wanted or present. `tools` are the names of the tools of `tool_ids`,
    and `custom_tools` those of them that clients made, where they were read: nobody records them.
    Nor which are `forbidden`: the agent has these, and its model is not offered them. The values of
    `secrets` are sealed."""

    config: AgentConfig
    tools: list[str]
    tool_ids: list[str] = []
    tags: list[str]
    block_ids: list[str]
    new_blocks: list[BlockState] = []
    first_messages: list[Message] = []
    secrets: dict[str, str] = {}
    custom_tools: list[CustomTool] = Field(default_factory=list, exclude=True)
    forbidden: frozenset[str] = Field(default=frozenset(), exclude=True)

    def model_post_init(self, context: object, /) -> None:
        """Derive the ids that were not recorded."""
        self.tool_ids = tool_ids_of(self.tools, self.tool_ids)

    def with_config(self, **changes: object) -> AgentDesign:
        """The design with these changes to its configuration."""
        return self.model_copy(update={"config": self.config.model_copy(update=changes)})

    @property
    def current_tools(self) -> list[HeldTool]:
        """The tools that the agent has now."""
        return held_tools(self.tool_ids, self.custom_tools)

    @property
    def bound(self) -> dict[str, BoundTool]:
        """The tools that the agent's tool names refer to now."""
        return {
            tool.name: BoundTool(id=tool.id, revision=tool.revision) for tool in self.current_tools
        }

    @property
    def attached_names(self) -> dict[str, str]:
        """The names at attachment of tools that were renamed since, by their present names."""
        if not self.custom_tools:
            return {}
        got = dict(zip(self.tool_ids, self.tools, strict=False))
        return {
            tool.name: got[tool.id]
            for tool in self.custom_tools
            if got.get(tool.id, tool.name) != tool.name
        }

    @property
    def names_now(self) -> dict[str, str]:
        """The names of tools that have other names by now, by those under which it got them."""
        return {before: now for now, before in self.attached_names.items()}

    @property
    def ruled_names(self) -> list[str]:
        """The names by which rules may know its tools."""
        return [*self.tools, *self.names_now.values()]


class AgentState(BaseModel):
    """The state of an agent."""

    phase: Phase = "unknown"
    design: AgentDesign | None = None
    own_block_ids: list[str] = []
    refused: Rejected | None = None


class Agent(Aggregate[AgentState]):
    """One agent."""

    State = AgentState
    begins_with = (AgentCreated,)

    @property
    def deleted(self) -> bool:
        """Whether it has stopped existing."""
        return self.state.phase == "deleted"

    @property
    def design(self) -> AgentDesign | None:
        """The agent's design, while the agent is there."""
        return self.state.design if self.state.phase == "present" else None

    def create(self, design: AgentDesign, *, at: datetime) -> Rejected | None:
        """Begin to exist; the blocks are there."""
        if self.state.phase != "unknown":
            return Rejected(code=CONFLICT, reason=f"Agent {self.id} exists already")
        own = [block.id for block in design.new_blocks]
        self.record(
            AgentCreated,
            at=at,
            config=design.config,
            tools=design.tools,
            tool_ids=design.tool_ids,
            tags=design.tags,
            block_ids=[*own, *design.block_ids],
            own_block_ids=own,
        )
        self.keep_secrets(design.secrets, at=at)
        return None

    def abandon(self, refused: Rejected, *, at: datetime) -> None:
        """Never come to exist, though blocks were made for it."""
        assert self.state.phase == "unknown", "only what is not there is given up"
        self.record(AgentAbandoned, at=at, code=refused.code, reason=refused.reason)

    def update(
        self, changed: list[str], design: AgentDesign, *, at: datetime, restored_from: str = ""
    ) -> Rejected | None:
        """Record the agent's new configuration."""
        if self.design is None:
            return missing(self.id)
        self.record(
            AgentUpdated,
            at=at,
            changed=changed,
            config=design.config,
            tools=design.tools,
            tool_ids=design.tool_ids,
            tags=design.tags,
            block_ids=design.block_ids,
            restored_from=restored_from,
        )
        self.keep_secrets(design.secrets, at=at)
        return None

    def keep_secrets(self, secrets: dict[str, str], *, at: datetime) -> None:
        """Have these secrets, if they are others."""
        assert self.design is not None, "only an agent that exists has secrets"
        if secrets != self.design.secrets:
            self.record(AgentSecretsReplaced, at=at, secrets=secrets)

    def delete(self, *, at: datetime) -> Rejected | None:
        """Record that the agent is deleted."""
        if self.design is None:
            return missing(self.id)
        self.record(AgentDeleted, at=at, own_block_ids=self.state.own_block_ids)
        return None

    def record_fork(self, command: RecordFork, *, at: datetime) -> Rejected | None:
        """Remember what it was made from, or what was made from it."""
        if self.design is None:
            return missing(self.id)
        self.record(
            AgentForked,
            at=at,
            origin_id=command.origin_id,
            fork_id=command.fork_id,
            cut=command.cut,
        )
        return None

    def attach(self, block_id: str, labels: Mapping[str, str], *, at: datetime) -> Rejected | None:
        """See a block. `labels` has the label of that block and of those seen already."""
        if self.design is None:
            return missing(self.id)
        if block_id in self.design.block_ids:
            return None
        seen = [*self.design.block_ids, block_id]
        there = [block_id for block_id in self.design.block_ids if block_id in labels]
        refused = too_many(len(seen)) or clash([*there, block_id], labels)
        if refused:
            return refused
        self.record(BlockAttached, at=at, block_id=block_id, block_ids=seen)
        return None

    def detach(self, block_id: str, *, at: datetime) -> Rejected | None:
        """See a block no more."""
        if self.design is None:
            return missing(self.id)
        if block_id not in self.design.block_ids:
            reason = f"Block with id '{block_id}' is not attached to agent '{self.id}'"
            return Rejected(code=NOT_FOUND, reason=reason)
        left = [attached for attached in self.design.block_ids if attached != block_id]
        self.record(BlockDetached, at=at, block_id=block_id, block_ids=left)
        return None

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        state = self.state
        match event:
            case AgentCreated():
                state.phase = "present"
                state.own_block_ids = event.own_block_ids
                state.design = design_of(event, secrets={})
            case AgentUpdated():
                assert state.design is not None, "only an agent that exists is changed"
                state.design = design_of(event, secrets=state.design.secrets)
            case AgentSecretsReplaced():
                assert state.design is not None, "only an agent that exists has secrets"
                state.design.secrets = event.secrets
            case AgentForked():
                pass  # what it was made from, or what was made from it, changes nothing of it
            case AgentAbandoned():
                state.phase = "abandoned"
                state.design = None
                state.refused = Rejected(code=event.code, reason=event.reason)
            case AgentDeleted():
                state.phase = "deleted"
                state.design = None
            case BlockAttached() | BlockDetached():
                assert state.design is not None, "only an agent that exists sees blocks"
                state.design.block_ids = event.block_ids


def design_of(event: AgentCreated | AgentUpdated, secrets: dict[str, str]) -> AgentDesign:
    """The design that an event records, with these secrets, which it does not."""
    return AgentDesign(
        config=event.config,
        tools=event.tools,
        tool_ids=event.tool_ids,
        tags=event.tags,
        block_ids=event.block_ids,
        secrets=secrets,
    )


def missing(agent_id: str) -> Rejected:
    """The refusal for an agent that is not there."""
    return Rejected(code=NOT_FOUND, reason=f"Agent with ID {agent_id} not found")


def too_many(blocks: int) -> Rejected | None:
    """An agent sees a bounded number of blocks."""
    if blocks <= AGENT_BLOCKS_MAX:
        return None
    reason = f"An agent can have at most {AGENT_BLOCKS_MAX} blocks: detach one first"
    return Rejected(code=UNPROCESSABLE, reason=reason)


def clash(block_ids: list[str], labels: Mapping[str, str]) -> Rejected | None:
    """An agent names its blocks by label, so two may not have the same."""
    seen: dict[str, str] = {}
    for block_id in block_ids:
        label = labels.get(block_id)
        if label is None:
            return Rejected(code=NOT_FOUND, reason=f"Block with id '{block_id}' not found")
        if label in seen:
            reason = (
                f"Blocks '{seen[label]}' and '{block_id}' both have the label '{label}', and an "
                "agent's labels must differ: rename or detach one"
            )
            return Rejected(code=CONFLICT, reason=reason)
        seen[label] = block_id
    return None


# Each call of a custom tool takes them along.
SECRETS_BYTES_MAX = 256 << 10


def wanted_secrets(request: CreateAgent | UpdateAgent) -> dict[str, str] | Rejected | None:
    """The secrets that a request sets, or why they cannot be; None where it says nothing of
    them."""
    given = request.secrets
    if given is None:
        return None
    return unfit_secrets(given) or dict(given)


def unfit_secrets(secrets: Mapping[str, str]) -> Rejected | None:
    """Why secrets cannot be kept, if so."""
    if not all_sealed(secrets):
        reason = "`secrets`: values are sealed before they are sent here, and these are not"
        return Rejected(code=INVALID, reason=reason)
    if size(secrets) > SECRETS_BYTES_MAX:
        reason = f"`secrets`: at most {SECRETS_BYTES_MAX} bytes when they are sealed: use fewer"
        return Rejected(code=UNPROCESSABLE, reason=reason)
    return None
