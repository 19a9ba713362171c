"""Conversations of an agent beside its own: the bodies that make and change them, and what clients
read."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from libs.contracts.letta import JsonObject
from libs.contracts.letta.agent_requests import ModelHandle
from libs.contracts.letta.agent_state import timestamp
from libs.contracts.letta.model_configs import AnyModelSettings, CompactionSettings, LLMConfig
from libs.contracts.letta.request_size_limits import INTEGER_MAX, JsonLimit, Name, Names, Text

type Tokens = Annotated[int, Field(ge=1, le=INTEGER_MAX)]
type Settings = Annotated[AnyModelSettings, JsonLimit()]


class CreateConversation(BaseModel):
    """A new conversation; the agent's blocks with these labels are copied for it."""

    model_config = ConfigDict(protected_namespaces=())

    summary: Text | None = None
    isolated_block_labels: Names | None = None
    model: ModelHandle = None
    model_settings: Settings | None = None
    description: Text | None = None
    hidden: bool = False
    context_window_limit: Tokens | None = None


class UpdateConversation(BaseModel):
    """A change to a conversation; null leaves a field as it is."""

    model_config = ConfigDict(protected_namespaces=())

    summary: Text | None = None
    model: ModelHandle = None
    model_settings: Settings | None = None
    last_message_at: datetime | None = None
    description: Text | None = None
    archived: bool | None = None
    context_window_limit: Tokens | None = None


class RecompileRequest(BaseModel):
    """The options of a recompile; `agent_id`: whose own conversation `default` means."""

    agent_id: Name | None = None
    compaction_settings: Annotated[CompactionSettings, JsonLimit()] | None = None


class ConversationConfig(BaseModel):
    """The configuration of a conversation, besides its messages and runs.

    `llm_config` is what the catalogue said of `model` when that was set, `isolated_blocks` names
    the copy that stands here for a block of the agent. The agent's own conversation has none of
    this, and no such config.
    """

    model_config = ConfigDict(frozen=True, protected_namespaces=())

    id: str
    agent_id: str
    summary: str | None = None
    description: str | None = None
    hidden: bool = False
    archived_at: datetime | None = None
    model: str | None = None
    model_settings: dict[str, JsonValue] | None = None
    context_window_limit: int | None = None
    llm_config: LLMConfig | None = None
    isolated_blocks: dict[str, str] = {}
    forked_from: str | None = None
    last_message_at: datetime | None = None
    created_by_id: str | None = None
    last_updated_by_id: str | None = None
    created_at: datetime
    updated_at: datetime


def conversation_state(config: ConversationConfig) -> JsonObject:
    """The conversation as clients read it, but for the messages in its context. What 0.16.8 did not
    know of a conversation is there where it was set."""
    return {
        "created_by_id": config.created_by_id,
        "last_updated_by_id": config.last_updated_by_id,
        "created_at": timestamp(config.created_at),
        "updated_at": timestamp(config.updated_at),
        "id": config.id,
        "agent_id": config.agent_id,
        "summary": config.summary,
        "isolated_block_ids": [*config.isolated_blocks.values()],
        "model": config.model,
        "model_settings": config.model_settings,
        "last_message_at": moment(config.last_message_at),
        **newer_fields(config),
    }


def newer_fields(config: ConversationConfig) -> JsonObject:
    """The fields that came after 0.16.8, those that were set."""
    shown: JsonObject = {}
    if config.description is not None:
        shown["description"] = config.description
    if config.context_window_limit is not None:
        shown["context_window_limit"] = config.context_window_limit
    if config.archived_at is not None:
        shown |= {"archived": True, "archived_at": timestamp(config.archived_at)}
    return shown


def moment(at: datetime | None) -> str | None:
    """A time as the API writes it, if there is one."""
    return None if at is None else timestamp(at)
