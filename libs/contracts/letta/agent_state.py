"""Agents as clients read them, whole or without their relationships."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, JsonValue

from libs.contracts.letta import JsonObject
from libs.contracts.letta.capabilities import Capability
from libs.contracts.letta.enums import AgentType, StopReasonType
from libs.contracts.letta.model_configs import EmbeddingConfig, LLMConfig, ResponseFormat

OUTPUT_TOKENS_DEFAULT = 4096
GEMINI_OUTPUT_TOKENS_DEFAULT = 65536
THINKING_TOKENS_DEFAULT = 1024


def model_settings(config: LLMConfig, *, parallel_tool_calls: bool = True) -> JsonObject:
    """The provider's settings as clients read them, from the stored config.

    `parallel_tool_calls` is what the client asked for: the recorded default is on, although
    the stored config says off.
    """
    common: JsonObject = {
        "max_output_tokens": config.max_tokens or _output_tokens_default(config),
        "parallel_tool_calls": parallel_tool_calls,
        "provider_type": _provider_type(config),
        "temperature": config.temperature,
    }
    return {**common, **_own_settings(config)}


def _provider_type(config: LLMConfig) -> str:
    if config.model_endpoint_type == "openai" and (config.handle or "").startswith("sglang/"):
        return "sglang"
    kin = {"minimax": "anthropic", "zai_coding": "zai"}
    return kin.get(config.model_endpoint_type, config.model_endpoint_type)


def _output_tokens_default(config: LLMConfig) -> int:
    gemini = config.model_endpoint_type in ("google_ai", "google_vertex")
    return GEMINI_OUTPUT_TOKENS_DEFAULT if gemini else OUTPUT_TOKENS_DEFAULT


def _own_settings(config: LLMConfig) -> JsonObject:
    """The settings that only this kind of provider has, in the recorded order."""
    answer = config.response_format
    response_format: JsonValue = None if answer is None else answer.model_dump(mode="json")
    switch = "enabled" if config.enable_reasoner else "disabled"
    budget = config.max_reasoning_tokens or THINKING_TOKENS_DEFAULT
    match _provider_type(config):
        case "openai" | "sglang" as kind:
            own: JsonObject = {
                "reasoning": {"reasoning_effort": config.reasoning_effort or "minimal"},
                "response_format": response_format,
                "strict": config.strict,
            }
            parser: JsonObject = {"tool_call_parser": config.tool_call_parser}
            return {**own, **parser} if kind == "sglang" else own
        case "anthropic":
            return {
                "thinking": {"type": switch, "budget_tokens": budget},
                "response_format": response_format,
                "verbosity": config.verbosity,
                "effort": config.effort,
                "strict": config.strict,
            }
        case "google_ai" | "google_vertex":
            thinks = config.max_reasoning_tokens > 0
            return {
                "thinking_config": {"include_thoughts": thinks, "thinking_budget": budget},
                "response_schema": response_format,
            }
        case "zai":
            thinking: JsonObject = {"type": switch, "clear_thinking": False}
            return {"response_format": response_format, "thinking": thinking}
        case "chatgpt_oauth":
            return {"reasoning": {"reasoning_effort": config.reasoning_effort or "medium"}}
        case "baseten":
            return {}
        case _:
            return {"response_format": response_format}


# Up to how many tokens of context window: how many files, how many characters of each.
_FILE_LIMITS = (
    (8_000, 3, 5_000),
    (32_000, 5, 15_000),
    (128_000, 10, 25_000),
    (200_000, 10, 40_000),
)
_FILE_LIMITS_BEYOND = (15, 40_000)

GIT_MEMORY_TAG = "git-memory-enabled"


class AgentConfig(BaseModel):
    """Everything an agent's state says that is not another resource."""

    model_config = ConfigDict(frozen=True, protected_namespaces=())

    id: str
    name: str
    system: str
    agent_type: AgentType = AgentType.letta_v1_agent
    llm_config: LLMConfig
    embedding_config: EmbeddingConfig | None = None
    compaction_settings: dict[str, JsonValue] | None = None
    parallel_tool_calls: bool = True
    response_format: ResponseFormat | None = None
    tool_rules: list[dict[str, JsonValue]] = []
    message_ids: list[str] = []
    description: str | None = None
    metadata: dict[str, JsonValue] | None = None
    project_id: str | None = None
    template_id: str | None = None
    base_template_id: str | None = None
    deployment_id: str | None = None
    entity_id: str | None = None
    message_buffer_autoclear: bool = False
    enable_sleeptime: bool | None = None
    last_run_completion: datetime | None = None
    last_run_duration_ms: int | None = None
    last_stop_reason: StopReasonType | None = None
    timezone: str = "UTC"
    max_files_open: int | None = None
    per_file_view_window_char_limit: int | None = None
    hidden: bool | None = None
    capabilities: list[Capability] = []
    created_by_id: str | None = None
    last_updated_by_id: str | None = None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, kw_only=True)
class Relationships:
    """The other resources of an agent, each as clients read it."""

    blocks: Sequence[JsonObject] = ()
    tools: Sequence[JsonObject] = ()
    sources: Sequence[JsonObject] = ()
    tags: Sequence[str] = ()
    secrets: Sequence[JsonObject] = ()
    identities: Sequence[JsonObject] = ()
    managed_group: JsonObject | None = None
    pending_approval: JsonObject | None = None

    def only(self, include: Collection[str]) -> Relationships:
        """Those that the `include` parameter names, as in `agent.blocks`; nothing else."""
        return Relationships(
            blocks=self.blocks if "agent.blocks" in include else (),
            tools=self.tools if "agent.tools" in include else (),
            sources=self.sources if "agent.sources" in include else (),
            tags=self.tags if {"agent.tags", "agent.blocks"} & set(include) else (),
            secrets=self.secrets if "agent.secrets" in include else (),
            identities=self.identities if "agent.identities" in include else (),
            managed_group=self.managed_group if "agent.managed_group" in include else None,
            pending_approval=self.pending_approval if "agent.pending_approval" in include else None,
        )


NO_RELATIONSHIPS = Relationships()


def timestamp(moment: datetime) -> str:
    """A resource's time as the API writes it: UTC with a Z, microseconds if there are any."""
    assert moment.tzinfo is not None, "a resource's time needs a time zone"
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def file_limits(context_window: int | None) -> tuple[int, int]:
    """The number of files that an agent may have open, and of characters that it sees of each."""
    if not context_window:
        return 5, 50_000
    for tokens_max, files, chars in _FILE_LIMITS:
        if context_window <= tokens_max:
            return files, chars
    return _FILE_LIMITS_BEYOND


def agent_state(config: AgentConfig, related: Relationships = NO_RELATIONSHIPS) -> JsonObject:
    """The agent as clients read it."""
    reason = config.last_stop_reason
    shown: JsonObject = {
        "created_by_id": config.created_by_id,
        "last_updated_by_id": config.last_updated_by_id,
        "created_at": timestamp(config.created_at),
        "updated_at": timestamp(config.updated_at),
        "id": config.id,
        "name": config.name,
        "tool_rules": [dict(rule) for rule in config.tool_rules],
        "message_ids": [*config.message_ids],
        "system": config.system,
        "agent_type": config.agent_type.value,
        **_models(config),
        "description": config.description,
        "metadata": config.metadata,
        "memory": memory_state(config.agent_type, related),
        **_resources(related),
        "project_id": config.project_id,
        "template_id": config.template_id,
        "base_template_id": config.base_template_id,
        "deployment_id": config.deployment_id,
        "entity_id": config.entity_id,
        "identity_ids": [identity["id"] for identity in related.identities],
        "identities": [*related.identities],
        "pending_approval": related.pending_approval,
        "message_buffer_autoclear": config.message_buffer_autoclear,
        "enable_sleeptime": config.enable_sleeptime,
        "multi_agent_group": related.managed_group,
        "managed_group": related.managed_group,
        "last_run_completion": _moment(config.last_run_completion),
        "last_run_duration_ms": config.last_run_duration_ms,
        "last_stop_reason": None if reason is None else reason.value,
        "timezone": config.timezone,
        **_file_limits(config),
        "hidden": config.hidden,
    }
    # What V1 does not have. An agent that declares no capabilities has no such field.
    added = config.model_dump(mode="json", exclude={*shown, "parallel_tool_calls"})
    return shown | {name: value for name, value in added.items() if value != []}


def memory_state(agent_type: AgentType, related: Relationships) -> JsonObject:
    """An agent's memory, as in its state and at `/core-memory`."""
    return {
        "agent_type": agent_type.value,
        "git_enabled": GIT_MEMORY_TAG in related.tags,
        "blocks": [*related.blocks],
        "file_blocks": [],
        "prompt_template": "",
    }


def _models(config: AgentConfig) -> JsonObject:
    embedding = config.embedding_config
    response_format = config.response_format
    return {
        "llm_config": config.llm_config.model_dump(mode="json"),
        "embedding_config": None if embedding is None else embedding.model_dump(mode="json"),
        "model": config.llm_config.handle,
        "embedding": None if embedding is None else embedding.handle,
        "model_settings": model_settings(
            config.llm_config, parallel_tool_calls=config.parallel_tool_calls
        ),
        "compaction_settings": config.compaction_settings,
        "response_format": None if response_format is None else response_format.model_dump(),
    }


def _resources(related: Relationships) -> JsonObject:
    return {
        "blocks": [*related.blocks],
        "tools": [*related.tools],
        "sources": [*related.sources],
        "tags": [*related.tags],
        "tool_exec_environment_variables": [*related.secrets],
        "secrets": [*related.secrets],
    }


def _file_limits(config: AgentConfig) -> JsonObject:
    files, chars = file_limits(config.llm_config.context_window)
    asked_files = config.max_files_open
    asked_chars = config.per_file_view_window_char_limit
    return {
        "max_files_open": files if asked_files is None else asked_files,
        "per_file_view_window_char_limit": chars if asked_chars is None else asked_chars,
    }


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else timestamp(moment)
