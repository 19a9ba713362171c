"""Defaults of new agents and blocks."""

from __future__ import annotations

from typing import Any

from libs.contracts.letta.all_request_bodies import CreateAgent, CreateBlock
from services.api.settings import CreationDefaults


def complete_block(body: CreateBlock, defaults: CreationDefaults) -> CreateBlock:
    """The block with a limit."""
    if "limit" in body.model_fields_set:
        return body
    return body.model_copy(update={"limit": defaults.block_limit_chars})


def complete_agent(body: CreateAgent, defaults: CreationDefaults) -> CreateAgent:
    """The agent with an embedding model, where there is a default, and its blocks with limits."""
    changes: dict[str, Any] = {}
    if defaults.embedding and not (body.embedding or body.embedding_config):
        changes["embedding"] = defaults.embedding
    if body.memory_blocks:
        changes["memory_blocks"] = [complete_block(block, defaults) for block in body.memory_blocks]
    return body.model_copy(update=changes) if changes else body
