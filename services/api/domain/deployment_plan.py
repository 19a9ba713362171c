"""Plan of a deployment: the things that it makes, and the changes of its agents in a migration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from libs.contracts.api.deployments import DeploymentRequest, PresentBlock
from libs.contracts.api.templates import (
    DEFAULT_PROJECT,
    MigrationOptions,
    TemplateAgent,
    TemplateBlock,
    TemplateContent,
    version_id,
)
from libs.contracts.bus_messages import UNPROCESSABLE, Json, JsonObject, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.groups.groups import GroupConfig
from libs.contracts.letta.agent_requests import UpdateAgent
from libs.contracts.letta.block_requests import CreateBlock
from libs.contracts.letta.blocks import BlockState, created_block
from libs.contracts.state_size_limits import oversize_creation, oversize_new_blocks
from services.api.domain.template_variables import substitute

# What an agent has by other commands than that which creates it.
ATTACHED_LATER = frozenset({"folder_ids", "source_ids", "identity_ids"})
# What a migration leaves as it is.
NOT_MIGRATED = frozenset({"enable_sleeptime", "hidden", "template_id", "base_template_id"})

# Lists that a template without them leaves out: a migration empties those of its agents.
EMPTIED = ("tool_ids", "tool_rules", "tags")


@dataclass(frozen=True, slots=True)
class Origin:
    """Which version of which template something is made from, and in which deployment."""

    deployment_id: str
    template_id: str
    version: int
    project_id: str

    @property
    def project(self) -> str | None:
        """The project of what is made; None for that of templates that name none."""
        return None if self.project_id == DEFAULT_PROJECT else self.project_id

    @property
    def fields(self) -> JsonObject:
        """The fields in which agents, blocks and groups name their origin."""
        return {
            "project_id": self.project,
            "template_id": version_id(self.template_id, self.version),
            "base_template_id": self.template_id,
        }


@dataclass(frozen=True, slots=True)
class PlannedAgent:
    """An agent that is to be created, and what is attached to it then."""

    id: str
    entity_id: str
    request: JsonObject
    folder_ids: Sequence[str] = ()
    identity_ids: Sequence[str] = ()
    has_sleeptime: bool = False


@dataclass(frozen=True, slots=True)
class DeploymentPlan:
    """All that is made for a deployment: blocks that several agents share, agents with their own,
    and their group."""

    shared_blocks: Sequence[BlockState]
    agents: Sequence[PlannedAgent]
    group: GroupConfig | None

    @property
    def agent_ids(self) -> list[str]:
        """The ids of its agents, in the order of the template."""
        return [agent.id for agent in self.agents]


@dataclass(slots=True)
class BlockChanges:
    """The changes to the blocks of an agent."""

    updates: dict[str, JsonObject] = field(default_factory=dict)
    new: list[BlockState] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)


def agent_id_of(deployment_id: str, entity_id: str) -> str:
    """The id of an agent of a deployment."""
    return derived_id("agent", deployment_id, entity_id)


def block_id_of(origin: Origin, block: TemplateBlock, *scope: str) -> str:
    """The id of a block that is made for a deployment."""
    parts = (origin.deployment_id, block.entity_id, str(origin.version), *scope)
    return derived_id("block", *parts)


def group_id_of(deployment_id: str) -> str:
    """The id of the group of a deployment."""
    return derived_id("group", deployment_id, "group")


def plan_of(origin: Origin, content: TemplateContent, wanted: DeploymentRequest) -> DeploymentPlan:
    """The plan for a template's content and a client's request; the same each time."""
    shared = [block for block in content.blocks if len(block.agents) != 1]
    return DeploymentPlan(
        shared_blocks=[block_state(origin, block, wanted.memory_variables) for block in shared],
        agents=[
            planned_agent(origin, content, agent, wanted, is_first=number == 0)
            for number, agent in enumerate(content.agents)
        ],
        group=planned_group(origin, content),
    )


def planned_agent(
    origin: Origin,
    content: TemplateContent,
    agent: TemplateAgent,
    wanted: DeploymentRequest,
    *,
    is_first: bool,
) -> PlannedAgent:
    """An agent as it is created. Its own blocks are made with it, in the order of the template."""
    blocks = [block for block in content.blocks if agent.entity_id in block.agents]
    values = wanted.memory_variables
    fields = {name: value for name, value in agent.fields.items() if name not in ATTACHED_LATER}
    request: JsonObject = {
        **fields,
        **origin.fields,
        "memory_blocks": [
            block_fields(origin, block, values) for block in blocks if len(block.agents) == 1
        ],
        "block_ids": [block_id_of(origin, block) for block in blocks if len(block.agents) != 1],
        "include_base_tools": False,
        "include_base_tool_rules": False,
    }
    if is_first and wanted.agent_name:
        request["name"] = wanted.agent_name
    if wanted.tags is not None:
        request["tags"] = [*wanted.tags]
    if secrets := secrets_of(agent, wanted):
        request["secrets"] = {**secrets}
    if wanted.first_messages is not None:
        request["initial_message_sequence"] = [*wanted.first_messages]
    identities = wanted.identity_ids
    return PlannedAgent(
        id=agent_id_of(origin.deployment_id, agent.entity_id),
        entity_id=agent.entity_id,
        request=request,
        folder_ids=names_in(agent.fields, "folder_ids"),
        identity_ids=names_in(agent.fields, "identity_ids") if identities is None else identities,
        has_sleeptime=bool(agent.fields.get("enable_sleeptime")),
    )


def refusal_of_plan(plan: DeploymentPlan) -> Rejected | None:
    """The refusal of more than one request may make."""
    shared = [block.model_dump(mode="json") for block in plan.shared_blocks]
    problem = oversize_new_blocks(shared)
    for agent in plan.agents:
        problem = problem or oversize_creation(agent.request)
    return Rejected(code=UNPROCESSABLE, reason=problem) if problem else None


def names_in(fields: Mapping[str, Json], name: str) -> list[str]:
    """The texts of a list in the fields of an agent."""
    value = fields.get(name)
    return [str(item) for item in value] if isinstance(value, list) else []


def secrets_of(agent: TemplateAgent, wanted: DeploymentRequest) -> dict[str, str]:
    """The sealed secrets of an agent: those of the template, unless others are wanted."""
    own = {name: value for name, value in agent.tool_variables.items() if value is not None}
    return own | wanted.tool_variables


def block_fields(origin: Origin, block: TemplateBlock, values: Mapping[str, str]) -> JsonObject:
    """A block as a request to create it says it."""
    return {
        "label": block.label,
        "value": substitute(block.value, values),
        "limit": block.limit,
        "description": block.description,
        "read_only": block.read_only,
        "preserve_on_migration": block.preserve_on_migration,
        "hidden": block.hidden,
        "metadata": block.metadata,
        "tags": [*block.tags],
        "entity_id": block.entity_id,
        "deployment_id": origin.deployment_id,
        **origin.fields,
    }


def block_state(
    origin: Origin, block: TemplateBlock, values: Mapping[str, str], *scope: str
) -> BlockState:
    """A block as it is made."""
    request = CreateBlock.model_validate(block_fields(origin, block, values))
    return created_block(request, block_id_of(origin, block, *scope))


def planned_group(origin: Origin, content: TemplateContent) -> GroupConfig | None:
    """The group of the agents, if they are one. The manager is not one of its members."""
    if content.type in ("classic", "cluster"):
        return None
    manager = content.group.manager_entity_id if content.group else None
    settings = content.group.settings if content.group else {}
    members = [agent.entity_id for agent in content.agents if agent.entity_id != manager]
    return GroupConfig.model_validate(
        {
            **settings,
            **origin.fields,
            "deployment_id": origin.deployment_id,
            "description": "Agents made from a template",
            "manager_type": content.type,
            "agent_ids": [agent_id_of(origin.deployment_id, entity_id) for entity_id in members],
            "manager_agent_id": manager and agent_id_of(origin.deployment_id, manager),
        }
    )


def migrated_fields(
    origin: Origin, agent: TemplateAgent, wanted: DeploymentRequest, options: MigrationOptions
) -> JsonObject:
    """The changes of a migration to an agent's configuration."""
    names = UpdateAgent.model_fields.keys() - ATTACHED_LATER - NOT_MIGRATED
    changes: JsonObject = {name: [] for name in EMPTIED} | {
        name: value for name, value in agent.fields.items() if name in names and value is not None
    }
    if wanted.tags is not None:
        changes.pop("tags", None)
    if not options.preserve_tool_variables:
        changes["secrets"] = {**secrets_of(agent, wanted)}
    return {**changes, **origin.fields}


def block_changes(
    origin: Origin,
    blocks: Sequence[TemplateBlock],
    present: Sequence[PresentBlock],
    wanted: DeploymentRequest,
    options: MigrationOptions,
    scope: tuple[str, str],
) -> BlockChanges:
    """The changes that give an agent the blocks of its template. A block is known by its label. The
    ids of new ones follow from `scope`, the number of the migration and the agent; a block that
    several agents share is made once."""
    changes = BlockChanges()
    there = {block.label: block for block in present}
    for block in blocks:
        fields = block_fields(origin, block, wanted.memory_variables)
        known = there.get(block.label)
        if known is None:
            parts = scope if len(block.agents) == 1 else scope[:1]
            changes.new.append(block_state(origin, block, wanted.memory_variables, *parts))
            continue
        kept = {"label", "tags", "metadata", "hidden"}
        if options.preserve_core_memories or block.preserve_on_migration:
            kept.add("value")
        changes.updates[known.id] = {
            name: value for name, value in fields.items() if name not in kept
        }
    if options.block_strategy == "reconcile-all":
        labels = {block.label for block in blocks}
        changes.deleted = [
            block.id
            for block in present
            if block.label not in labels and block.deployment_id == origin.deployment_id
        ]
    return changes
