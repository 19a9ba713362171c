"""Agents, blocks, runs and models are rebuilt from the recordings, and the SDK reads them."""

from datetime import datetime

import pytest
from letta_client.types import AgentState, BlockResponse, EmbeddingModel, Model
from letta_client.types.agents import Run
from pydantic import JsonValue

from libs.contracts.letta import JsonObject
from libs.contracts.letta.agent_state import (
    AgentConfig,
    Relationships,
    agent_state,
    file_limits,
    memory_state,
    timestamp,
)
from libs.contracts.letta.all_request_bodies import (
    BlockUpdate,
    CompactionSettings,
    CreateAgent,
    CreateBlock,
    EmbeddingConfig,
    LettaAsyncRequest,
    LLMConfig,
)
from libs.contracts.letta.blocks import (
    BlockState,
    block_state,
    created_block,
    with_default_description,
)
from libs.contracts.letta.enums import AgentType, RunStatus, StopReasonType, run_status
from libs.contracts.letta.model_configs import embedding_entry, model_entry
from libs.contracts.letta.runs import RunConfig, run_config, run_state
from services.agent.domain.agents.agent_types import PROFILES, default_tool_rules, default_tools
from services.agent.domain.agents.model_config_resolution import (
    compaction_settings,
    created_config,
    embedding_config,
    llm_config,
)
from tests.unit.letta.recordings import body, differences, exchange

ENDPOINTS = {"openai": "http://127.0.0.1:18999/v1", "anthropic": "https://api.anthropic.com/v1"}


def one(value: JsonValue) -> JsonObject:
    assert isinstance(value, dict)
    return value


def many(value: JsonValue) -> list[JsonObject]:
    assert isinstance(value, list)
    return [one(item) for item in value]


def catalogue(handle: str) -> LLMConfig:
    provider = handle.partition("/")[0]
    return llm_config(
        handle,
        endpoint_type=provider,
        endpoint=ENDPOINTS[provider],
        context_window=200_000,
        max_tokens=16_384,
    )


def related(recorded: JsonObject) -> Relationships:
    return Relationships(
        blocks=many(recorded["blocks"]),
        tools=many(recorded["tools"]),
        tags=[str(tag) for tag in recorded["tags"] or []],  # type: ignore[union-attr]
    )


def state_of(name: str) -> tuple[JsonObject, JsonObject]:
    """What we make of the recorded request, and what the genuine server made of it."""
    recorded = one(body(name))
    request = CreateAgent.model_validate(one(exchange(name)["request"])["body"])
    assert request.model is not None
    assert request.embedding is not None
    config = created_config(request, catalogue(request.model))
    names = default_tools(request.agent_type)
    rules = default_tool_rules(names, agent_type=request.agent_type, model=config.model)
    recorded_rules = sorted(many(recorded["tool_rules"]), key=str)
    assert sorted(rules, key=str) == recorded_rules
    agent = AgentConfig(
        id=str(recorded["id"]),
        name=request.name or str(recorded["name"]),
        system=PROFILES[request.agent_type].system_prompt or "",
        agent_type=request.agent_type,
        llm_config=config,
        embedding_config=embedding_config(
            request.embedding,
            endpoint_type="openai",
            endpoint=ENDPOINTS["openai"],
            dimensions=1536,
        ),
        compaction_settings=compaction_settings(config),
        tool_rules=many(recorded["tool_rules"]),
        message_ids=recorded["message_ids"],
        created_by_id=str(recorded["created_by_id"]),
        last_updated_by_id=str(recorded["last_updated_by_id"]),
        created_at=datetime.fromisoformat(str(recorded["created_at"])),
        updated_at=datetime.fromisoformat(str(recorded["updated_at"])),
    )
    return agent_state(agent, related(recorded)), recorded


@pytest.mark.parametrize(
    "name",
    [
        "agent_create",
        "agent_create_minimal",
        "agent_create_anthropic",
        "agent_create_memgpt_v2",
    ],
)
def test_an_agent_is_built_from_its_request_as_recorded(name: str) -> None:
    built, recorded = state_of(name)
    assert differences(built, recorded) == []
    read = AgentState.model_validate(built)
    own = {"openai": "OpenAIModelSettings", "anthropic": "AnthropicModelSettings"}
    assert type(read.api_model_settings).__name__ == own[str(read.llm_config.provider_name)]


def test_relationships_are_left_out_unless_included() -> None:
    whole = Relationships(
        blocks=[{"id": "b"}], tools=[{"id": "t"}], tags=["x"], identities=[{"id": "i"}]
    )
    assert whole.only(()) == Relationships()
    assert whole.only(["agent.tools"]) == Relationships(tools=[{"id": "t"}])
    assert whole.only(["agent.blocks"]).blocks == whole.blocks


@pytest.mark.parametrize(
    ("name", "include"),
    [("agent_retrieve", []), ("agent_retrieve_include_blocks", ["agent.blocks"])],
)
def test_an_agent_is_retrieved_with_what_is_included_as_recorded(
    name: str, include: list[str]
) -> None:
    recorded = one(body(name))
    whole = related(one(body("agent_create")))
    fields = {key: recorded[key] for key in AgentConfig.model_fields if key in recorded}
    state = agent_state(AgentConfig.model_validate(fields), whole.only(include))
    texts_have_changed = [at for at in differences(state, recorded) if ".value:" not in at]
    assert texts_have_changed == []


def test_memory_is_rebuilt_as_recorded() -> None:
    recorded = one(body("core_memory"))
    built = memory_state(AgentType.letta_v1_agent, Relationships(blocks=many(recorded["blocks"])))
    assert differences(built, recorded) == []


@pytest.mark.parametrize("name", ["block_create", "block_toolong"])
def test_a_block_is_built_from_its_request_as_recorded(name: str) -> None:
    recorded = one(body(name))
    request = CreateBlock.model_validate(one(exchange(name)["request"])["body"])
    built = block_state(created_block(request, str(recorded["id"])))
    assert differences(built, recorded) == []
    assert BlockResponse.model_validate(built).value == recorded["value"]


def test_an_agents_human_block_is_described_and_keeps_its_own_description() -> None:
    bare = BlockState(id="block-1", label="human", value="")
    assert with_default_description(bare).description
    own = bare.model_copy(update={"description": "mine"})
    assert with_default_description(own).description == "mine"
    assert with_default_description(bare.model_copy(update={"label": "notes"})).description is None


def test_a_block_without_a_value_is_empty_and_null_bytes_are_dropped() -> None:
    assert CreateBlock.model_validate({"label": "a", "value": None}).value == ""
    assert BlockUpdate.model_validate({"value": "a\x00b"}).value == "ab"


def test_a_run_is_built_from_its_request_as_recorded() -> None:
    recorded = one(body("message_async"))
    request = LettaAsyncRequest.model_validate(one(exchange("message_async")["request"])["body"])
    run = run_config(
        request,
        id=str(recorded["id"]),
        agent_id=str(recorded["agent_id"]),
        created_at=datetime.fromisoformat(str(recorded["created_at"])),
        background=True,
        metadata=one(recorded["metadata"]),
    )
    assert differences(run_state(run), recorded) == []


def test_runs_are_rebuilt_as_recorded_and_the_sdk_reads_them() -> None:
    for recorded in many(body("runs_list")):
        fields = {key: value for key, value in recorded.items() if key != "request_config"}
        if recorded["completed_at"]:
            fields["completed_at"] = f"{recorded['completed_at']}Z"
        built = run_state(RunConfig.model_validate(fields))
        assert differences(built, {**recorded, "completed_at": fields["completed_at"]}) == []
        assert Run.model_validate(built).id == recorded["id"]


def test_models_are_rebuilt_as_recorded_and_the_sdk_reads_them() -> None:
    for recorded in many(body("models_list")):
        built = model_entry(LLMConfig.model_validate(recorded))
        assert differences(built, recorded) == []
        assert Model.model_validate(built).name == recorded["name"]


def test_embedding_models_are_rebuilt_as_recorded_and_the_sdk_reads_them() -> None:
    for recorded in many(body("embedding_models_list")):
        built = embedding_entry(EmbeddingConfig.model_validate(recorded))
        assert differences(built, recorded) == []
        assert EmbeddingModel.model_validate(built).name == recorded["name"]


def test_file_limits_grow_with_the_context_window() -> None:
    limits = [file_limits(tokens) for tokens in (None, 8_000, 32_000, 128_000, 200_000, 200_001)]
    assert limits == [
        (5, 50_000),
        (3, 5_000),
        (5, 15_000),
        (10, 25_000),
        (10, 40_000),
        (15, 40_000),
    ]


def test_compaction_settings_keep_what_was_asked() -> None:
    config = catalogue("openai/gpt-4o-mini")
    asked = CompactionSettings(model="openai/o3", mode="all", clip_chars=None)
    built = compaction_settings(config, asked)
    assert (built["model"], built["mode"], built["clip_chars"]) == ("openai/o3", "all", None)
    assert built["prompt"]


def test_times_have_a_zone() -> None:
    moment = datetime.fromisoformat("2026-11-21T22:48:51.377664+01:00")
    assert timestamp(moment) == "2026-11-21T21:48:51.377664Z"


def test_a_runs_status_follows_from_its_stop_reason() -> None:
    assert run_status(StopReasonType.end_turn) == RunStatus.completed
    assert run_status(StopReasonType.requires_approval) == RunStatus.completed
    assert run_status(StopReasonType.cancelled) == RunStatus.cancelled
    assert run_status(StopReasonType.llm_api_error) == RunStatus.failed
