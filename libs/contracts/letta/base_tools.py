"""The tools that come with the server: which agent gets which, and how clients read them."""

import hashlib
from collections.abc import Iterable, Mapping

from pydantic import JsonValue

from libs.contracts.letta import JsonObject
from libs.contracts.letta.base_tool import BaseTool
from libs.contracts.letta.kinds import AgentType
from libs.contracts.letta.memory_tools import CORE_TOOLS, MEMORY_TOOLS
from libs.contracts.letta.world_tools import (
    BUILTIN_TOOLS,
    FILE_TOOLS,
    MULTI_AGENT_TOOLS,
    VOICE_TOOLS,
)

TOOL_RETURN_CHARS_MAX = 50_000
# Longer ones are cut when a model's answer is read, and are no JSON any more.
TOOL_ARGUMENTS_CHARS_MAX = 600_000

# The tools that work now. The others are listed, and attaching one is refused.
built = frozenset({"memory_replace", "memory_insert", "conversation_search"})

BASE_TOOLS: Mapping[str, BaseTool] = {
    tool.name: tool
    for tool in (
        *CORE_TOOLS,
        *MEMORY_TOOLS,
        *MULTI_AGENT_TOOLS,
        *BUILTIN_TOOLS,
        *FILE_TOOLS,
        *VOICE_TOOLS,
    )
}

_EXITING = frozenset({"send_message", "send_message_to_agent_async", "memory_finish_edits"})
_CONTINUING = frozenset(
    {
        "conversation_search",
        "archival_memory_insert",
        "archival_memory_search",
        "core_memory_append",
        "core_memory_replace",
        "memory",
        "memory_apply_patch",
        "memory_replace",
        "memory_insert",
        "memory_rethink",
    }
)

_MEMGPT = (
    "send_message",
    "conversation_search",
    "core_memory_append",
    "core_memory_replace",
    "memory",
    "memory_apply_patch",
)

_DEFAULTS: Mapping[AgentType, tuple[str, ...]] = {
    AgentType.letta_v1_agent: ("memory_replace", "memory_insert", "conversation_search"),
    AgentType.memgpt_agent: _MEMGPT,
    AgentType.split_thread_agent: _MEMGPT,
    AgentType.memgpt_v2_agent: (
        "send_message",
        "conversation_search",
        "memory_replace",
        "memory_insert",
    ),
    AgentType.sleeptime_agent: (
        "memory_replace",
        "memory_insert",
        "memory_rethink",
        "memory_finish_edits",
    ),
    AgentType.voice_convo_agent: ("send_message", "search_memory"),
    AgentType.voice_sleeptime_agent: (
        "store_memories",
        "rethink_user_memory",
        "finish_rethinking_memory",
    ),
    AgentType.react_agent: (),
    AgentType.workflow_agent: (),
}
_WITH_SLEEPTIME = ("send_message", "conversation_search", "archival_memory_search")
_BEFORE_SLEEPTIME = frozenset(
    {AgentType.voice_sleeptime_agent, AgentType.voice_convo_agent, AgentType.sleeptime_agent}
)

# Models that choose well without being told which tools go on, and an exception to them.
_MODELS_WITHOUT_RULES = ("claude-4-sonnet", "claude-3-5-sonnet", "gpt-5", "gemini-2.5-pro")
_MODELS_WITH_RULES_AFTER_ALL = ("mini",)

_ID_NAMESPACE = "heeler.base-tool/"


def tool_id(name: str) -> str:
    """The id of a base tool, the same on every server and shaped like a random one."""
    digest = bytearray(hashlib.sha256((_ID_NAMESPACE + name).encode()).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x40
    digest[8] = digest[8] & 0x3F | 0x80
    text = digest.hex()
    return f"tool-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def default_tools(
    agent_type: AgentType,
    *,
    enable_sleeptime: bool = False,
    include_base_tools: bool = True,
    include_multi_agent_tools: bool = False,
) -> tuple[str, ...]:
    """The names of the tools that an agent gets without asking for them."""
    if not include_base_tools:
        names: tuple[str, ...] = ()
    elif enable_sleeptime and agent_type not in _BEFORE_SLEEPTIME:
        names = _WITH_SLEEPTIME
    else:
        names = _DEFAULTS[agent_type]
    if include_multi_agent_tools:
        names += tuple(tool.name for tool in MULTI_AGENT_TOOLS)
    return names


def default_tool_rules(
    names: Iterable[str],
    *,
    agent_type: AgentType,
    model: str,
    include_base_tool_rules: bool | None = None,
    has_own_rules: bool = False,
) -> list[JsonObject]:
    """The rules that an agent with these tools gets without asking for them."""
    wanted = include_base_tool_rules
    if wanted is None:
        wanted = _wants_rules(agent_type, model, has_own_rules=has_own_rules)
    if not wanted:
        return []
    kinds = ((name, _rule_type(name)) for name in names)
    return [
        {"tool_name": name, "type": kind, "prompt_template": None}
        for name, kind in kinds
        if kind is not None
    ]


def tool_state(
    tool: BaseTool,
    *,
    created_by_id: str | None = None,
    default_requires_approval: bool | None = None,
) -> JsonObject:
    """The base tool as clients read it."""
    return {
        "id": tool_id(tool.name),
        "tool_type": tool.tool_type.value,
        "description": tool.description,
        "source_type": "python",
        "name": tool.name,
        "tags": [tool.tool_type.value],
        "source_code": None,
        "json_schema": json_schema(tool),
        "args_json_schema": None,
        "return_char_limit": TOOL_RETURN_CHARS_MAX,
        "pip_requirements": None,
        "npm_requirements": None,
        "default_requires_approval": default_requires_approval,
        "enable_parallel_execution": tool.parallel,
        "created_by_id": created_by_id,
        "last_updated_by_id": created_by_id,
        "metadata_": {},
        "project_id": None,
    }


def json_schema(tool: BaseTool) -> JsonObject:
    """The function schema that a model is shown."""
    properties: JsonObject = {
        argument.name: {**argument.schema, "description": argument.description}
        for argument in tool.arguments
    }
    required: list[JsonValue] = [a.name for a in tool.arguments if a.required]
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": {"type": "object", "properties": properties, "required": required},
    }


def _wants_rules(agent_type: AgentType, model: str, *, has_own_rules: bool) -> bool:
    if agent_type == AgentType.letta_v1_agent and not has_own_rules:
        return False
    if agent_type == AgentType.sleeptime_agent:
        return True
    if any(part in model for part in _MODELS_WITH_RULES_AFTER_ALL):
        return True
    return not any(part in model for part in _MODELS_WITHOUT_RULES)


def _rule_type(name: str) -> str | None:
    if name in _EXITING:
        return "exit_loop"
    return "continue_loop" if name in _CONTINUING else None
