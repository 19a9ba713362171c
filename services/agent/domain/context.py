"""What the model is shown: the system prompt with the blocks as they are now, and the window."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from zoneinfo import ZoneInfo

from libs.contracts.conversation import Message
from libs.contracts.letta.agent_state import AgentConfig
from libs.contracts.letta.prompts import (
    TYPES_WITH_LINE_NUMBERS,
    TYPES_WITHOUT_BLOCKS,
    compile_system_prompt,
)
from libs.contracts.message import JsonObject
from services.agent.domain.omissions import shown
from services.agent.domain.pairing import paired
from services.agent.domain.talk import SystemPrompt, Talk

# How the parts are put together; with another one, every prompt is rebuilt. 2: blocks are escaped.
PROMPT_VERSION = 2


@dataclass(frozen=True, slots=True)
class SeenBlock:
    """A memory block as an agent sees it now."""

    id: str
    version: int
    label: str
    value: str
    description: str | None
    limit: int
    read_only: bool


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One question to a model. `tools` are OpenAI function schemas; `stream_tokens` asks for the
    answer in pieces, which costs more than the whole at once."""

    config: AgentConfig
    messages: list[Message]
    tools: list[JsonObject]
    parallel: bool
    stream_tokens: bool = False


def system_prompt(
    config: AgentConfig,
    blocks: list[SeenBlock],
    *,
    previous_messages: int,
    at: datetime,
) -> SystemPrompt:
    """The system message of an agent, and what it was made from."""
    numbered = (
        config.agent_type in TYPES_WITH_LINE_NUMBERS
        and config.llm_config.model_endpoint_type == "anthropic"
    )
    content = compile_system_prompt(
        config.system,
        [] if config.agent_type in TYPES_WITHOUT_BLOCKS else blocks,
        agent_id=config.id,
        conversation_id=None,
        previous_message_count=previous_messages,
        recompiled_at=at.astimezone(ZoneInfo(config.timezone)),
        line_numbers=numbered,
    )
    return SystemPrompt(content=content, shows=shown_versions(config, blocks))


def shown_versions(config: AgentConfig, blocks: list[SeenBlock]) -> dict[str, int]:
    """What a system message is made from: the agent's own text and how it is put
    together with the blocks, and each block's version."""
    text = sha256(config.system.encode()).hexdigest()[:16]
    return {f"system-{text}": PROMPT_VERSION, **{block.id: block.version for block in blocks}}


def rebuilt_prompt(
    talk: Talk, config: AgentConfig, blocks: list[SeenBlock], *, at: datetime
) -> SystemPrompt | None:
    """A new system message, if something that it shows has changed since it was made."""
    if shown_versions(config, blocks) == talk.shown:
        return None
    return system_prompt(config, blocks, previous_messages=len(talk.window) - 1, at=at)


def shown_messages(talk: Talk, rebuilt: SystemPrompt | None) -> list[Message]:
    """The window as the model sees it: with the newest system message, without what was refused."""
    window = paired(shown(talk.window, talk.omitted))
    if rebuilt is not None:
        window[0] = window[0].model_copy(update={"content": rebuilt.content})
    return window
