"""Context of a model: the system prompt with the blocks as they are now, and the window."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from zoneinfo import ZoneInfo

from pydantic_core import to_json

from libs.contracts.agent.conversations import Message
from libs.contracts.agent.tool_rule_evaluation import RULES
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.agent_state import AgentConfig
from libs.contracts.letta.blocks import BlockState
from services.agent.domain.agents.agent_types import PROFILES
from services.agent.domain.conversations.context_window_cache import (
    ContextWindowCache,
    shown_chars_max,
)
from services.agent.domain.conversations.conversation_state import ConversationState, SystemPrompt
from services.agent.domain.conversations.provider_rejected_messages import shown_window
from services.agent.domain.prompts.system_prompt import (
    NO_ARCHIVES,
    ArchivalMemory,
    AttachedBlock,
    PromptMetadata,
    compile_system_prompt,
)
from services.agent.domain.tools.tool_rules import rule_lines

# How the parts are put together; with another one, every prompt is rebuilt.
PROMPT_VERSION = 3


@dataclass(frozen=True, slots=True)
class ShownMemory:
    """The memory that a system prompt shows: blocks, the section about folders, and archives."""

    blocks: list[AttachedBlock]
    directories: str = ""
    archival: ArchivalMemory = NO_ARCHIVES


def first_version(block: BlockState) -> AttachedBlock:
    """A memory block as it was made."""
    return AttachedBlock(
        block.id, 1, block.label or "", block.value, block.description, block.limit, block.read_only
    )


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One question to a model. `tools` are OpenAI function schemas, of which it has to call one
    where it `must_call`; `stream_tokens` asks for the answer in pieces, which costs more than the
    whole at once."""

    config: AgentConfig
    messages: list[Message]
    tools: list[JsonObject]
    parallel: bool
    stream_tokens: bool = False
    must_call: bool = False


def system_prompt(
    config: AgentConfig,
    memory: ShownMemory,
    *,
    previous_messages: int,
    at: datetime,
    conversation_id: str | None = None,
) -> SystemPrompt:
    """The system message of an agent, and what it was made from; without `conversation_id` for the
    agent's own conversation."""
    profile = PROFILES[config.agent_type]
    numbered = profile.numbers_lines and config.llm_config.model_endpoint_type == "anthropic"
    content = compile_system_prompt(
        config.system,
        memory.blocks if profile.shows_blocks else [],
        PromptMetadata(
            agent_id=config.id,
            conversation_id=conversation_id,
            previous_message_count=previous_messages,
            recompiled_at=at.astimezone(ZoneInfo(config.timezone)),
            archival=memory.archival,
        ),
        line_numbers=numbered,
        tool_rules=rule_lines(RULES.validate_python(config.tool_rules)),
        directories=memory.directories,
        changed_by={
            block.label: block.changed_by
            for block in memory.blocks
            if block.changed_by and block.changed_by != config.id
        },
    )
    return SystemPrompt(content=content, shows=shown_versions(config, memory))


def shown_versions(config: AgentConfig, memory: ShownMemory) -> dict[str, int]:
    """The versions of all that a system message is made from: the agent's own text and how it is
    put together with the blocks, its tool rules, what it shows of folders and of archives, and each
    block's version."""
    shown = {f"system-{digest(config.system.encode())}": PROMPT_VERSION}
    if config.tool_rules:
        shown[f"tool_rules-{digest(to_json(config.tool_rules))}"] = PROMPT_VERSION
    if memory.directories:
        shown[f"directories-{digest(memory.directories.encode())}"] = PROMPT_VERSION
    if memory.archival != NO_ARCHIVES:
        archives = to_json([memory.archival.count_text, memory.archival.tags])
        shown[f"archives-{digest(archives)}"] = PROMPT_VERSION
    return {**shown, **{block.id: block.version for block in memory.blocks}}


def digest(content: bytes) -> str:
    """A digest of a content."""
    return sha256(content).hexdigest()[:16]


def rebuilt_prompt(
    state: ConversationState, config: AgentConfig, memory: ShownMemory, *, at: datetime
) -> SystemPrompt | None:
    """A new system message, if something that it shows has changed since it was made."""
    if shown_versions(config, memory) == state.shown:
        return None
    return recompiled_prompt(state, config, memory, at=at)


def recompiled_prompt(
    state: ConversationState, config: AgentConfig, memory: ShownMemory, *, at: datetime
) -> SystemPrompt:
    """The system message of a conversation as it would be made now."""
    return system_prompt(
        config,
        memory,
        previous_messages=recall_count(state),
        at=at,
        conversation_id=state.own.id if state.own else None,
    )


def recall_count(state: ConversationState) -> int:
    """The number of messages besides the system message, shown or not."""
    shown_now = sum(message.summary is None for message in state.window[1:])
    return state.length.evicted + shown_now


def shown_messages(
    state: ConversationState, rebuilt: SystemPrompt | None, *, window_tokens: int | None = None
) -> list[Message]:
    """The window as the model sees it: with the newest system message, without what was refused.
    Of the result of a tool it is shown what a window of so many tokens has room for."""
    return weighed_messages(state, rebuilt, ContextWindowCache(), window_tokens=window_tokens)[0]


def weighed_messages(
    state: ConversationState,
    rebuilt: SystemPrompt | None,
    kept: ContextWindowCache,
    *,
    window_tokens: int | None,
) -> tuple[list[Message], int]:
    """The same, and how much it weighs without the system message; `kept` is what was shown of
    this conversation last."""
    [system, *window] = shown_window(state.window, state.omitted)
    if rebuilt is not None:
        system = system.model_copy(update={"content": rebuilt.content})
    chars_max = None if window_tokens is None else shown_chars_max(window_tokens)
    messages, weight = kept.of(window, chars_max)
    return [system, *messages], weight
