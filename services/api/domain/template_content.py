"""Content of a template, and its limits."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import ValidationError
from pydantic_core import to_json

from libs.contracts.api.templates import (
    AGENTS_MAX,
    BLOCKS_MAX,
    CONTENT_BYTES_MAX,
    VARIABLES_MAX,
    TemplateContent,
)
from libs.contracts.bus_messages import TOO_LARGE, Rejected
from libs.contracts.letta.agent_requests import CreateAgent
from libs.contracts.letta.block_requests import CreateBlock
from libs.contracts.letta.error_bodies import InvalidArgument
from services.api.domain.refusals import first_error, refuse
from services.api.domain.template_variables import memory_variables, tool_variables

SINGLE, UNGROUPED = "classic", "cluster"
WITH_MANAGER = ("supervisor", "dynamic", "sleeptime", "voice_sleeptime")


def refusal_of_content(content: TemplateContent) -> Rejected | None:
    """Why a template cannot hold this, if so."""
    return (
        refusal_of_size(content)
        or refusal_of_entities(content)
        or refusal_of_group(content)
        or refusal_of_values(content)
    )


def refusal_of_size(content: TemplateContent) -> Rejected | None:
    """The refusal of more than a template may hold."""
    if not content.agents:
        return refuse("`agents`: a template has at least one: add it")
    for field, things, most in (
        ("agents", content.agents, AGENTS_MAX),
        ("blocks", content.blocks, BLOCKS_MAX),
        ("memory_variables", memory_variables(content), VARIABLES_MAX),
        ("tool_variables", tool_variables(content), VARIABLES_MAX),
    ):
        if len(things) > most:
            return refuse(f"`{field}`: {len(things)}, and a template has at most {most}: use fewer")
    size = len(to_json(content.model_dump(mode="json")))
    if size > CONTENT_BYTES_MAX:
        reason = f"A template has at most {CONTENT_BYTES_MAX} bytes as JSON, and this has {size}"
        return Rejected(code=TOO_LARGE, reason=f"{reason}: shorten its blocks or prompts")
    return None


def refusal_of_entities(content: TemplateContent) -> Rejected | None:
    """The refusal of entities that are named twice, or that are not there."""
    agents = [agent.entity_id for agent in content.agents]
    blocks = [block.entity_id for block in content.blocks]
    for field, ids in (("agents", agents), ("blocks", blocks)):
        if twice := first_repeated(ids):
            return refuse(f"`{field}`: two have the entity id {twice}: name each once")
    for block in content.blocks:
        if unknown := [agent for agent in block.agents if agent not in agents]:
            return refuse(f"`relationships`: there is no agent {unknown[0]}: add it to `agents`")
    for agent in agents:
        labels = [block.label for block in content.blocks if agent in block.agents]
        if twice := first_repeated(labels):
            return refuse(f"`blocks`: agent {agent} has two with the label {twice}: rename one")
    return None


def refusal_of_group(content: TemplateContent) -> Rejected | None:
    """The refusal of a type that does not go with the agents, or lacks its manager."""
    if content.type == SINGLE and len(content.agents) != 1:
        return refuse(f"`type`: {SINGLE} is for one agent: use {UNGROUPED} for several")
    manager = content.group.manager_entity_id if content.group else None
    if content.type in WITH_MANAGER and manager is None:
        return refuse(f"`configuration`: {content.type} needs a `managerAgentEntityId`: name one")
    if manager is not None and manager not in [agent.entity_id for agent in content.agents]:
        return refuse(f"`configuration`: there is no agent {manager}: name one of `agents`")
    return None


def refusal_of_values(content: TemplateContent) -> Rejected | None:
    """The refusal of fields that no agent or no block could be created with."""
    for number, agent in enumerate(content.agents):
        try:
            CreateAgent.model_validate(agent.fields)
        except ValidationError as invalid:
            return refuse(f"`agents[{number}]`: {first_error(invalid)}")
        except InvalidArgument as invalid:
            return refuse(f"`agents[{number}]`: {invalid.body['detail']}")
    for number, block in enumerate(content.blocks):
        fields = block.model_dump(mode="json", include=set(CreateBlock.model_fields))
        try:
            CreateBlock.model_validate(fields)
        except ValidationError as invalid:
            return refuse(f"`blocks[{number}]`: {first_error(invalid)}")
        if block.limit < 1:
            return refuse(f"`blocks[{number}]`: `limit` is {block.limit}: use at least 1")
    return None


def first_repeated(names: Iterable[str]) -> str | None:
    """The first name that comes twice, if one does."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
