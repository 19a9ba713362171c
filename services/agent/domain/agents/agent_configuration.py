"""From a V1 request to the design of an agent."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from pydantic_core import to_json

from libs.agent_document.agent_fields import AGENT_FIELDS, left_out, same_fields, same_values
from libs.contracts.agent.conversations import Message
from libs.contracts.agent.tool_rule_evaluation import given_arguments
from libs.contracts.bus_messages import (
    CONFLICT,
    INVALID,
    NOT_FOUND,
    UNPROCESSABLE,
    JsonObject,
    Rejected,
)
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.groups.sleeptime import PERSONA_LABEL
from libs.contracts.letta.agent_requests import CreateAgent, UpdateAgent
from libs.contracts.letta.agent_state import AgentConfig
from libs.contracts.letta.blocks import created_block, with_default_description
from libs.contracts.letta.model_configs import EmbeddingConfig, LLMConfig
from libs.contracts.letta.request_size_limits import levels
from libs.contracts.letta.tool_rules import RequiresApprovalToolRule, ToolRule
from libs.contracts.state_size_limits import AGENT_TOOLS_BYTES_MAX, oversize_agent, size
from libs.contracts.tools.base_tools.catalogue import CATALOGUE, SERVER_TOOLS
from libs.contracts.wall_times import zone_named
from services.agent.domain.agents.agent import (
    AGENT_BLOCKS_MAX,
    AgentDesign,
    clash,
    too_many,
    wanted_secrets,
)
from services.agent.domain.agents.agent_types import (
    PROFILES,
    default_tool_rules,
    default_tools,
    made_up_name,
)
from services.agent.domain.agents.model_config_resolution import (
    compaction_settings,
    created_config,
    updated_config,
)
from services.agent.domain.tools.custom_tools import CustomTool, HeldTool, held_tools
from services.agent.domain.tools.tool_rules import unfit_arguments, with_current_names


@dataclass(frozen=True, slots=True)
class Facts:
    """The outside facts that a design depends on; None means that there is no such model. `custom`
    are the clients' tools among those that a request names."""

    llm: LLMConfig | None
    embedding: EmbeddingConfig | None
    labels: Mapping[str, str]
    actor: str
    now: datetime
    custom: Sequence[CustomTool] = ()


# Each run remembers the rules that it was accepted under.
TOOL_RULES_BYTES_MAX = 64 << 10
RULE_VALUES_MAX = 2_000  # in the arguments that an agent's rules give; each is checked

BY_TEMPLATE = "agents are made from templates by POST /v1/templates/{template_version}/agents"
# Fields that say what another operation does, or none yet.
REFUSED_FIELDS = {
    "from_template": BY_TEMPLATE,
    "memory_variables": BY_TEMPLATE,
    "message_ids": left_out(AGENT_FIELDS, "update")["message_ids"],
}


def created_design(agent_id: str, request: CreateAgent, facts: Facts) -> AgentDesign | Rejected:
    """The design of a new agent, or why it cannot be."""
    llm = created_config(request, facts.llm)
    tools = chosen_tools(request, facts.custom)
    if isinstance(tools, Rejected):
        return tools
    problem = (
        refusal_of_fields(request) or unknown_time_zone(request.timezone) or too_long_schemas(tools)
    )
    if problem:
        return problem
    secrets = wanted_secrets(request)
    if isinstance(secrets, Rejected):
        return secrets
    system = request.system or PROFILES[request.agent_type].system_prompt
    if system is None:
        reason = f"An agent of type {request.agent_type.value} needs a `system` prompt of its own"
        return Rejected(code=INVALID, reason=reason)
    config = new_config(agent_id, request, facts, llm, system, new_rules(request, llm, tools))
    new_blocks = [
        with_default_description(created_block(block, derived_id("block", agent_id, str(index))))
        for index, block in enumerate(request.memory_blocks or [])
    ]
    block_ids = list(dict.fromkeys(request.block_ids or []))
    labels = {**facts.labels, **{block.id: block.label or "" for block in new_blocks}}
    seen = [block.id for block in new_blocks] + block_ids
    tags = sorted(set(request.tags or []))
    refused = too_many(len(seen)) or clash(seen, labels) or too_large(config, tags)
    if refused is None and config.enable_sleeptime:
        refused = no_sleeptime_agent(labels[block_id] for block_id in seen)
    if refused:
        return refused
    return AgentDesign(
        config=config,
        tools=[tool.name for tool in tools],
        tool_ids=[tool.id for tool in tools],
        tags=tags,
        block_ids=block_ids,
        new_blocks=new_blocks,
        first_messages=first_messages(agent_id, request, facts.now),
        secrets=secrets or {},
    )


def new_config(
    agent_id: str,
    request: CreateAgent,
    facts: Facts,
    llm: LLMConfig,
    system: str,
    tool_rules: list[JsonObject],
) -> AgentConfig:
    """The configuration of a new agent."""
    profile = PROFILES[request.agent_type]
    own = same_values(CONFIG_FIELDS, request, "create") | {
        "name": request.name or made_up_name(agent_id),
        "system": system,
        "llm_config": llm,
        "embedding_config": request.embedding_config or with_chunk_size(facts.embedding, request),
        "compaction_settings": compaction_settings(llm, request.compaction_settings),
        "parallel_tool_calls": llm.parallel_tool_calls if says_parallel(request) else True,
        "tool_rules": tool_rules,
        "message_buffer_autoclear": profile.autoclears or request.message_buffer_autoclear,
        "timezone": request.timezone or "UTC",
    }
    return AgentConfig(
        **own,
        id=agent_id,
        created_by_id=facts.actor,
        last_updated_by_id=facts.actor,
        created_at=facts.now,
        updated_at=facts.now,
    )


def new_rules(request: CreateAgent, llm: LLMConfig, tools: Sequence[HeldTool]) -> list[JsonObject]:
    """The tool rules of a new agent: its own, those of its type, and those of tools that need an
    approval."""
    rules = [rule.model_dump(mode="json") for rule in request.tool_rules or []]
    defaults = default_tool_rules(
        [tool.name for tool in tools],
        agent_type=request.agent_type,
        model=llm.model,
        include_base_tool_rules=request.include_base_tool_rules,
        include_base_tools=bool(request.include_base_tools),
        has_own_rules=bool(rules),
    )
    return distinct([*rules, *defaults, *approval_rules(tools, rules)])


def approval_rules(tools: Iterable[HeldTool], rules: list[JsonObject]) -> list[JsonObject]:
    """The rules for tools that need an approval by themselves, where there is none yet."""
    wanted = [
        RequiresApprovalToolRule(tool_name=tool.name) for tool in tools if tool.needs_approval
    ]
    return [rule for needed in wanted if (rule := needed.model_dump(mode="json")) not in rules]


def distinct(rules: Iterable[JsonObject]) -> list[JsonObject]:
    """These rules in their order, identical ones once."""
    return [*{to_json(rule): rule for rule in rules}.values()]


def first_messages(agent_id: str, request: CreateAgent, now: datetime) -> list[Message]:
    """The messages that the conversation begins with, after the system message."""
    return [
        Message(
            id=derived_id("message", agent_id, "first", str(index)),
            role=message.role.value,
            content=message.model_dump(mode="json")["content"],
            created_at=now,
            otid=message.otid,
            name=message.name,
            sender_id=message.sender_id,
        )
        for index, message in enumerate(request.initial_message_sequence or [])
    ]


def updated_design(
    design: AgentDesign, request: UpdateAgent, facts: Facts
) -> tuple[list[str], AgentDesign] | Rejected:
    """The names of the fields that change and the new design, or why it cannot be."""
    old = design.config
    problem = refusal_of_fields(request) or unknown_time_zone(request.timezone)
    if problem:
        return problem
    secrets = wanted_secrets(request)
    if isinstance(secrets, Rejected):
        return secrets
    changes = changed_fields(old, request, facts)
    tools, tool_ids = design.tools, design.tool_ids
    if request.tool_ids is not None:
        wanted = known_tools(request.tool_ids, facts.custom)
        if isinstance(wanted, Rejected):
            return wanted
        if refused := too_long_schemas(wanted, design.tool_ids):
            return refused
        tools, tool_ids = [tool.name for tool in wanted], [tool.id for tool in wanted]
        rules = updated_rules(design, wanted, changes.get("tool_rules"))
        if rules != changes.get("tool_rules", old.tool_rules):
            changes["tool_rules"] = rules
    block_ids = design.block_ids
    if request.block_ids is not None:
        block_ids = list(dict.fromkeys(request.block_ids))
        refused = too_many(len(block_ids)) or clash(block_ids, facts.labels)
        if refused:
            return refused
    config = AgentConfig.model_validate({**old.model_dump(), **plain(changes)})
    if config.enable_sleeptime and not old.enable_sleeptime:
        labels = (facts.labels[block_id] for block_id in block_ids if block_id in facts.labels)
        if refused := no_sleeptime_agent(labels):
            return refused
    tags = design.tags if request.tags is None else sorted(set(request.tags))
    refused = too_large(config, tags)
    if refused and size([config, tags]) > size([old, design.tags]):
        return refused
    return sorted(request.model_fields_set), AgentDesign(
        config=config,
        tools=tools,
        tool_ids=tool_ids,
        tags=tags,
        block_ids=block_ids,
        secrets=design.secrets if secrets is None else secrets,
    )


def changed_fields(old: AgentConfig, request: UpdateAgent, facts: Facts) -> dict[str, object]:
    """The changes to an agent's configuration by the fields of a request and by its sender."""
    asked = request.model_fields_set
    changes: dict[str, object] = {
        name: value
        for name in asked.intersection(same_fields(CONFIG_FIELDS, "update"))
        if (value := getattr(request, name)) is not None or name in CLEARABLE
    }
    if request.timezone == "":
        changes["timezone"] = "UTC"
    llm = old.llm_config
    if asked & MODEL_FIELDS:
        llm = updated_config(request, old.llm_config, facts.llm, old.agent_type)
        changes["llm_config"] = llm
    if request.parallel_tool_calls is not None or request.model_settings is not None:
        changes["parallel_tool_calls"] = llm.parallel_tool_calls
    if request.embedding_config or facts.embedding:
        changes["embedding_config"] = request.embedding_config or facts.embedding
    if request.compaction_settings is not None:
        changes["compaction_settings"] = compaction_settings(llm, request.compaction_settings)
    if request.tool_rules is not None:
        rules = [rule.model_dump(mode="json") for rule in request.tool_rules]
        changes["tool_rules"] = distinct(rules)
    return {**changes, "updated_at": facts.now, "last_updated_by_id": facts.actor}


def updated_rules(
    design: AgentDesign, wanted: Sequence[HeldTool], given: object
) -> list[JsonObject]:
    """The tool rules of an agent that gets these tools, with its own rules or those `given`. Rules
    follow a tool to its new name, but not where given rules name that."""
    new = [tool for tool in wanted if tool.id not in design.tool_ids]
    taken = {tool.name for tool in wanted} if given is not None else set[str]()
    got = dict(zip(design.tool_ids, design.tools, strict=True))
    now = {got[tool.id]: tool.name for tool in wanted if tool.id in got}
    now = {before: name for before, name in now.items() if before not in taken}
    rules = design.config.tool_rules if given is None else given
    assert isinstance(rules, list)
    kept = with_current_names(rules, now)
    return distinct([*kept, *approval_rules(new, kept)])


MODEL_FIELDS = {
    *("model", "llm_config", "model_settings", "context_window_limit", "max_tokens", "reasoning"),
    *("parallel_tool_calls", "response_format"),
}
CONFIG_FIELDS = [field for field in AGENT_FIELDS if field.name in AgentConfig.model_fields]
# What null removes.
CLEARABLE = {
    field.name
    for field in CONFIG_FIELDS
    if field.null_clears and AgentConfig.model_fields[field.name].default is None
}


def plain(changes: Mapping[str, object]) -> dict[str, object]:
    """Models as dictionaries, as validation wants them."""
    return {
        name: value.model_dump() if hasattr(value, "model_dump") else value
        for name, value in changes.items()
    }


def with_chunk_size(
    embedding: EmbeddingConfig | None, request: CreateAgent
) -> EmbeddingConfig | None:
    """The catalogue's config with the chunk size that the client wants."""
    if embedding is None or request.embedding_chunk_size is None:
        return embedding
    return embedding.model_copy(update={"embedding_chunk_size": request.embedding_chunk_size})


def says_parallel(request: CreateAgent) -> bool:
    """Whether the client said anything about parallel tool calls."""
    return request.parallel_tool_calls is not None or request.model_settings is not None


def chosen_tools(
    request: CreateAgent, custom: Sequence[CustomTool] = ()
) -> list[HeldTool] | Rejected:
    """A new agent's tools by name: those asked for and those of its type."""
    by_id = known_tools(request.tool_ids or [], custom)
    if isinstance(by_id, Rejected):
        return by_id
    wanted = set(request.tools or [])
    made = {tool.name: tool for tool in custom}
    known: dict[str, HeldTool] = {**made, **SERVER_TOOLS}
    unknown = [name for name in request.tools or [] if name not in known]
    if unknown:
        reason = f"`tools`: there is no tool named {', '.join(unknown)}: create it first"
        return Rejected(code=NOT_FOUND, reason=reason)
    wanted |= {tool.name for tool in by_id}
    wanted |= set(
        default_tools(
            request.agent_type,
            enable_sleeptime=bool(request.enable_sleeptime),
            include_base_tools=request.include_base_tools,
            include_multi_agent_tools=request.include_multi_agent_tools,
        )
    )
    return [known[name] for name in sorted(wanted)]


def known_tools(
    tool_ids: list[str], custom: Sequence[CustomTool] = ()
) -> list[HeldTool] | Rejected:
    """The tools of these ids, in their order, each once."""
    there = {tool.id for tool in custom}
    unknown = [tool_id for tool_id in tool_ids if tool_id not in CATALOGUE and tool_id not in there]
    if unknown:
        reason = f"`tool_ids`: there is no tool {', '.join(unknown)}"
        return Rejected(code=NOT_FOUND, reason=reason)
    return held_tools(dict.fromkeys(tool_ids), custom)


def named_tools(request: CreateAgent | UpdateAgent) -> tuple[list[str], list[str]]:
    """The ids and the names in a request that are not of tools which come with the server."""
    ids = [tool_id for tool_id in request.tool_ids or [] if tool_id not in CATALOGUE]
    names = (request.tools or []) if isinstance(request, CreateAgent) else []
    return ids, [name for name in names if name not in SERVER_TOOLS]


def too_long_schemas(tools: Sequence[HeldTool], held: Container[str] = ()) -> Rejected | None:
    """The refusal of tools, besides those that an agent `held` before, with which the schemas of
    all would be too long: each message shows a model all of them."""
    new = [tool for tool in tools if tool.id not in held]
    total = 0
    for tool in sorted(tools, key=lambda tool: tool.id not in held) if new else ():
        total += size(tool.json_schema)
        if total > AGENT_TOOLS_BYTES_MAX:
            named = new[0].name if tool.id in held else tool.name
            reason = (
                f"`tool_ids`: the schemas of an agent's tools have at most {AGENT_TOOLS_BYTES_MAX}"
                f" bytes as JSON together, and `{named}` does not fit in any more: attach fewer"
            )
            return Rejected(code=UNPROCESSABLE, reason=reason)
    return None


def no_sleeptime_agent(labels: Iterable[str]) -> Rejected | None:
    """Why an agent with blocks of these labels cannot share them with a sleeptime agent, which has
    one of its own besides."""
    attached = [*labels]
    if len(attached) >= AGENT_BLOCKS_MAX:
        reason = (
            f"`enable_sleeptime`: the sleeptime agent shares all blocks and needs one more, and an"
            f" agent can have at most {AGENT_BLOCKS_MAX}: detach one first"
        )
        return Rejected(code=UNPROCESSABLE, reason=reason)
    if PERSONA_LABEL in attached:
        reason = (
            f"`enable_sleeptime`: the sleeptime agent has a block `{PERSONA_LABEL}` of its own, and"
            " cannot share another one: give the agent's block another label"
        )
        return Rejected(code=CONFLICT, reason=reason)
    return None


def refusal_of_fields(request: CreateAgent | UpdateAgent) -> Rejected | None:
    """The refusal of a request that sets a field which has no effect here, or has unfit tool
    rules."""
    for field, why in REFUSED_FIELDS.items():
        if getattr(request, field, None):
            return Rejected(code=INVALID, reason=f"`{field}`: {why}")
    return unfit_rules(request.tool_rules or [])


def unfit_rules(rules: list[ToolRule]) -> Rejected | None:
    """Say what is wrong with tool rules that could not be kept."""
    if size([rule.model_dump(mode="json") for rule in rules]) > TOOL_RULES_BYTES_MAX:
        reason = f"`tool_rules`: at most {TOOL_RULES_BYTES_MAX} bytes as JSON: use fewer"
        return Rejected(code=UNPROCESSABLE, reason=reason)
    given = levels([args for rule in rules for _, args in given_arguments(rule)])
    if sum(map(len, islice(given, 2, None))) > RULE_VALUES_MAX:
        reason = (
            f"`tool_rules`: the arguments that they give may have at most {RULE_VALUES_MAX} keys"
            " and items together: give fewer"
        )
        return Rejected(code=UNPROCESSABLE, reason=reason)
    for place, rule in enumerate(rules):
        field = f"`tool_rules`, entry {place}"
        for tool, args in given_arguments(rule):
            known = SERVER_TOOLS.get(tool)
            problem = unfit_arguments(known, args) if known else ""
            if problem:
                reason = f"{field}: its arguments do not fit the tool `{tool}`: {problem}"
                return Rejected(code=INVALID, reason=reason)
    return None


def too_large(config: AgentConfig, tags: list[str]) -> Rejected | None:
    """The refusal of a design that does not fit into each event that holds it."""
    problem = oversize_agent({**dict(config), "tags": tags})
    return Rejected(code=UNPROCESSABLE, reason=problem) if problem else None


def unknown_time_zone(name: str | None) -> Rejected | None:
    """A time zone must be one that exists."""
    try:
        zone_named(name or "UTC")
    except ValueError as problem:
        return Rejected(code=INVALID, reason=f"`timezone`: {problem}")
    return None
