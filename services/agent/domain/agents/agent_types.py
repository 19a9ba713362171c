"""Differences between the types of agents: one row for each, with the loop of its runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Literal

from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.enums import AgentType
from libs.contracts.tools.base_tools.multi_agent_tools import MULTI_AGENT_TOOLS
from services.agent.domain.agents import prompt_texts as prompts

LoopName = Literal["letta_v1", "heartbeat"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentProfile:
    """A type of agents.

    `system_prompt` and `tools` are for an agent that is created without any; without
    `system_prompt` it has to bring its own. `base_rules` says whether it gets rules for the base
    tools: `by_model` means, unless its model chooses well without. With `inner_thoughts` a model
    that does not reason by itself is made to write its thoughts into the arguments of its calls.
    One that `autoclears` shows its model nothing of earlier runs, whatever its creator wanted.
    """

    loop: LoopName
    system_prompt: str | None
    tools: tuple[str, ...]
    shows_blocks: bool = True
    numbers_lines: bool = False
    base_rules: Literal["with_own_rules", "always", "by_model"] = "by_model"
    inner_thoughts: bool = True
    sleeptime_tools: bool = True
    autoclears: bool = False


_MEMGPT = AgentProfile(
    loop="heartbeat",
    system_prompt=prompts.SEND_MESSAGE,
    tools=(
        "send_message",
        "conversation_search",
        "core_memory_append",
        "core_memory_replace",
        "memory",
        "memory_apply_patch",
    ),
)

PROFILES: Mapping[AgentType, AgentProfile] = {
    AgentType.letta_v1_agent: AgentProfile(
        loop="letta_v1",
        system_prompt=prompts.LETTA_V1,
        tools=("memory_replace", "memory_insert", "conversation_search"),
        numbers_lines=True,
        base_rules="with_own_rules",
        inner_thoughts=False,
    ),
    AgentType.memgpt_agent: _MEMGPT,
    AgentType.split_thread_agent: replace(_MEMGPT, system_prompt=None),
    AgentType.memgpt_v2_agent: AgentProfile(
        loop="heartbeat",
        system_prompt=prompts.SEND_MESSAGE,
        tools=("send_message", "conversation_search", "memory_replace", "memory_insert"),
        numbers_lines=True,
    ),
    AgentType.sleeptime_agent: AgentProfile(
        loop="letta_v1",
        system_prompt=prompts.SLEEPTIME,
        tools=("memory_replace", "memory_insert", "memory_rethink", "memory_finish_edits"),
        numbers_lines=True,
        base_rules="always",
        sleeptime_tools=False,
    ),
    AgentType.voice_convo_agent: AgentProfile(
        loop="heartbeat",
        system_prompt=prompts.SEND_MESSAGE,
        tools=("send_message", "search_memory"),
        sleeptime_tools=False,
    ),
    AgentType.voice_sleeptime_agent: AgentProfile(
        loop="heartbeat",
        system_prompt=prompts.SLEEPTIME,
        tools=("store_memories", "rethink_user_memory", "finish_rethinking_memory"),
        sleeptime_tools=False,
    ),
    AgentType.react_agent: AgentProfile(
        loop="heartbeat", system_prompt=prompts.REACT, tools=(), shows_blocks=False
    ),
    AgentType.workflow_agent: AgentProfile(
        loop="heartbeat",
        system_prompt=prompts.REACT,
        tools=(),
        shows_blocks=False,
        autoclears=True,
    ),
}

# What `enable_sleeptime` gives instead, to the types that have `sleeptime_tools`.
_WITH_SLEEPTIME = ("send_message", "conversation_search", "archival_memory_search")

_EXITING = frozenset({"send_message", "send_message_to_agent_async", "memory_finish_edits"})
_CONTINUING = frozenset(
    [
        *("conversation_search", "archival_memory_insert", "archival_memory_search"),
        *("core_memory_append", "core_memory_replace", "memory", "memory_apply_patch"),
        *("memory_replace", "memory_insert", "memory_rethink"),
    ]
)

# Models that choose well without being told which tools go on, and an exception to them.
_MODELS_WITHOUT_RULES = ("claude-4-sonnet", "claude-3-5-sonnet", "gpt-5", "gemini-2.5-pro")
_MODELS_WITH_RULES_AFTER_ALL = ("mini",)


def default_tools(
    agent_type: AgentType,
    *,
    enable_sleeptime: bool = False,
    include_base_tools: bool = True,
    include_multi_agent_tools: bool = False,
) -> tuple[str, ...]:
    """The names of the tools that an agent gets without asking for them."""
    profile = PROFILES[agent_type]
    if not include_base_tools:
        names: tuple[str, ...] = ()
    elif enable_sleeptime and profile.sleeptime_tools:
        names = _WITH_SLEEPTIME
    else:
        names = profile.tools
    if include_multi_agent_tools:
        names += tuple(tool.name for tool in MULTI_AGENT_TOOLS)
    return names


def default_tool_rules(
    names: Iterable[str],
    *,
    agent_type: AgentType,
    model: str,
    include_base_tool_rules: bool | None = None,
    include_base_tools: bool = True,
    has_own_rules: bool = False,
) -> list[JsonObject]:
    """The rules that an agent with these tools gets without asking for them."""
    wanted = include_base_tool_rules
    if wanted is None:
        # Who chooses all tools is taken to want the rules of those among them that are base tools.
        own = has_own_rules or not include_base_tools
        wanted = _wants_rules(PROFILES[agent_type], model, has_own_rules=own)
    if not wanted:
        return []
    kinds = ((name, _rule_type(name)) for name in names)
    return [
        {"tool_name": name, "type": kind, "prompt_template": None}
        for name, kind in kinds
        if kind is not None
    ]


def _wants_rules(profile: AgentProfile, model: str, *, has_own_rules: bool) -> bool:
    if profile.base_rules == "with_own_rules" and not has_own_rules:
        return False
    if profile.base_rules == "always":
        return True
    if any(part in model for part in _MODELS_WITH_RULES_AFTER_ALL):
        return True
    return not any(part in model for part in _MODELS_WITHOUT_RULES)


def _rule_type(name: str) -> str | None:
    if name in _EXITING:
        return "exit_loop"
    return "continue_loop" if name in _CONTINUING else None


QUALITIES = (
    "Amber", "Brave", "Calm", "Clever", "Curious", "Daring", "Eager", "Fair", "Gentle", "Glad",
    "Happy", "Honest", "Jolly", "Keen", "Kind", "Lively", "Lucky", "Merry", "Mild", "Noble",
    "Patient", "Plucky", "Proud", "Quick", "Quiet", "Sunny", "Swift", "Tidy", "Warm", "Wise",
)  # fmt: skip
ANIMALS = (
    "Badger", "Beaver", "Crane", "Dolphin", "Falcon", "Finch", "Fox", "Gecko", "Hare", "Heron",
    "Ibex", "Jackdaw", "Kestrel", "Lark", "Lynx", "Marten", "Newt", "Otter", "Owl", "Panda",
    "Plover", "Quail", "Raven", "Robin", "Seal", "Stork", "Swan", "Tapir", "Walrus", "Wren",
)  # fmt: skip


def made_up_name(agent_id: str) -> str:
    """A name that is always the same for the same id, such as `QuietHeron`."""
    digest = sha256(agent_id.encode()).digest()
    return QUALITIES[digest[0] % len(QUALITIES)] + ANIMALS[digest[1] % len(ANIMALS)]
