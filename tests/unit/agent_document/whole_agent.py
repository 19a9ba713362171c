"""An agent, a block and a tool of which every field has a value that no default is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, get_args

from pydantic import BaseModel

from libs.agent_document.agent_fields import AGENT_FIELDS, DocumentField
from libs.contracts.agent.conversations import Message
from libs.contracts.letta.agent_requests import CreateAgent
from libs.contracts.letta.agent_state import AgentConfig, Relationships, agent_state
from libs.contracts.letta.blocks import BlockState, block_state
from libs.contracts.letta.model_configs import EmbeddingConfig, LLMConfig
from libs.contracts.letta.tools import ToolState, tool_state
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.agents.agent_configuration import Facts, created_design
from services.agent.domain.tools.custom_tools import CustomTool

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
LATER = datetime(2026, 11, 27, 12, tzinfo=UTC)
UUID = "11111111-1111-4111-8111-111111111111"
HANDLE, EMBEDDING_HANDLE = "openai/gpt-4o-mini", "openai/text-embedding-3-small"
LLM = {
    "model": "gpt-4o-mini",
    "model_endpoint_type": "openai",
    "context_window": 31_000,
    "handle": HANDLE,
    "temperature": 0.25,
    "max_tokens": 2_222,
    "enable_reasoner": False,
    "response_format": {"type": "json_object"},
}
EMBEDDING = {
    "embedding_endpoint_type": "openai",
    "embedding_model": "text-embedding-3-small",
    "embedding_dim": 1_536,
    "handle": EMBEDDING_HANDLE,
}
COMPACTION = {
    "model": HANDLE,
    "model_settings": None,
    "prompt": "Be short.",
    "prompt_acknowledgement": False,
    "clip_chars": 1_234,
    "mode": "all",
    "sliding_window_percentage": 0.5,
}
SCHEMA = {"name": "roll", "description": "Roll.", "parameters": {"type": "object"}}
SOURCE = 'def roll() -> str:\n    """Roll."""\n    return "4"\n'
VALUES: dict[str, Any] = {
    "id": f"agent-{UUID}",
    "name": "Ada",
    "agent_type": "letta_v1_agent",  # the only type without fields of its own
    "llm_config": LLM,
    "embedding_config": EMBEDDING,
    "compaction_settings": COMPACTION,
    "parallel_tool_calls": False,
    "response_format": {"type": "json_object"},
    "tool_rules": [{"type": "exit_loop", "tool_name": "roll", "prompt_template": None}],
    "message_ids": [f"message-{UUID}"],
    "metadata": {"team": 7},
    "last_run_completion": LATER,
    "last_stop_reason": "end_turn",
    "timezone": "Europe/Berlin",
    "capabilities": [{"name": "dice", "description": "Rolls.", "priority": 3}],
    "created_at": NOW,
    "updated_at": LATER,
    "tags": ["games"],
    # Of blocks and tools.
    "tool_type": "custom",
    "source_type": "typescript",
    "source_code": SOURCE,
    "json_schema": SCHEMA,
    "args_json_schema": {"type": "object"},
    "pip_requirements": [{"name": "numpy", "version": "2.0"}],
    "npm_requirements": [{"name": "left-pad", "version": "1.0"}],
    "metadata_": {"team": 7},
    "project_id": "p1",
}


def value_of(name: str, annotation: Any) -> Any:
    """A value for a field that no default is."""
    if name in VALUES:
        return VALUES[name]
    kinds = {*get_args(annotation), annotation}
    if bool in kinds:
        return True
    if int in kinds:
        return 77
    assert str in kinds, f"say in VALUES of {__file__} what `{name}` may be"
    return f"some {name}"


def values_of(model: type[BaseModel], **fields: Any) -> dict[str, Any]:
    """A value for each field of a model."""
    found = {name: value_of(name, field.annotation) for name, field in model.model_fields.items()}
    return {**found, **fields}


CONFIG = AgentConfig.model_validate(values_of(AgentConfig))
BLOCK = BlockState.model_validate(values_of(BlockState, id=f"block-{UUID}"))
TOOL = ToolState.model_validate(values_of(ToolState, id=f"tool-{UUID}", name="roll"))
FACTS = Facts(
    LLMConfig.model_validate({**LLM, "context_window": 128_000}),
    EmbeddingConfig.model_validate(EMBEDDING),
    {BLOCK.id: BLOCK.label or ""},
    "user-1",
    LATER,
    (CustomTool(id=TOOL.id, name="roll", json_schema=SCHEMA),),
)
GROUP: dict[str, Any] = {
    "id": f"group-{UUID}",
    "name": "team",
    "manager_type": "sleeptime",
    "manager_agent_id": CONFIG.id,
    "agent_ids": [],
    "sleeptime_agent_frequency": 3,
}
RELATED = Relationships(
    blocks=[block_state(BLOCK)],
    tools=[tool_state(TOOL)],
    sources=[{"id": f"source-{UUID}", "name": "notes"}],
    tags=VALUES["tags"],
    secrets=[{"key": "KEY", "value": "hunter2"}],
    identities=[{"id": f"identity-{UUID}"}],
    managed_group=GROUP,
    pending_approval={"id": f"message-{UUID}"},
)
MESSAGE = Message(id=f"message-{UUID}", role="user", content="hi", created_at=NOW)


def whole_document() -> dict[str, Any]:
    """The agent as clients read it, with all that belongs to it."""
    return agent_state(CONFIG, RELATED)


def whole_values(table: tuple[DocumentField, ...], state: BaseModel) -> dict[str, Any]:
    """The values of the fields of a table, as JSON."""
    shown = {"tags": VALUES["tags"], **state.model_dump(mode="json")}
    return {field.name: shown[field.name] for field in table}


def design_of(fields: dict[str, Any]) -> AgentDesign:
    """The agent that a request to create one makes."""
    design = created_design(CONFIG.id, CreateAgent.model_validate(fields), FACTS)
    assert isinstance(design, AgentDesign), design
    return design


def shown_after(design: AgentDesign) -> dict[str, Any]:
    """The fields of an agent that was made, as JSON."""
    return whole_values(AGENT_FIELDS, design.config) | {"tags": design.tags}
