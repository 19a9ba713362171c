"""Every field that the SDK can send is read, and the rest is ignored."""

import pytest
from letta_client.types import (
    agent_create_params,
    agent_update_params,
    block_create_params,
    block_update_params,
    embedding_config_param,
    llm_config_param,
    message_create_param,
)
from letta_client.types.agents import (
    approval_create_param,
    message_create_async_params,
    message_create_params,
    message_stream_params,
)
from letta_client.types.agents import block_update_params as agent_block_update_params
from pydantic import BaseModel, TypeAdapter, ValidationError

from libs.contracts.letta.agent_requests import CreateAgent, UpdateAgent
from libs.contracts.letta.agent_state import model_settings
from libs.contracts.letta.all_request_bodies import (
    AnyModelSettings,
    ApprovalCreate,
    BlockUpdate,
    CompactionSettings,
    ConversationMessageRequest,
    CreateBlock,
    EmbeddingConfig,
    LettaAsyncRequest,
    LettaRequest,
    LettaStreamingRequest,
    LLMConfig,
    MessageCreate,
    ToolReturnCreate,
)
from libs.contracts.letta.enums import AgentType, MessageRole
from libs.contracts.letta.message_content import TextContent
from services.agent.domain.agents.model_config_resolution import created_config, updated_config

SENT_BY_SDK = [
    (CreateAgent, agent_create_params.AgentCreateParams),
    (UpdateAgent, agent_update_params.AgentUpdateParams),
    (CreateBlock, block_create_params.BlockCreateParams),
    (BlockUpdate, block_update_params.BlockUpdateParams),
    (BlockUpdate, agent_block_update_params.BlockUpdateParams),
    (LLMConfig, llm_config_param.LlmConfigParam),
    (EmbeddingConfig, embedding_config_param.EmbeddingConfigParam),
    (CompactionSettings, agent_create_params.CompactionSettings),
    (MessageCreate, message_create_param.MessageCreateParam),
    (ApprovalCreate, approval_create_param.ApprovalCreateParam),
    (ToolReturnCreate, message_create_params.MessageToolReturnCreate),
    (LettaStreamingRequest, message_create_params.MessageCreateParamsStreaming),
    (LettaStreamingRequest, message_stream_params.MessageStreamParams),
    (LettaAsyncRequest, message_create_async_params.MessageCreateAsyncParams),
]
IN_THE_PATH = {"agent_id"}
GPT = LLMConfig(
    model="gpt-4o",
    model_endpoint_type="openai",
    handle="openai/gpt-4o",
    context_window=200_000,
    max_tokens=16_384,
)
CLAUDE = GPT.model_copy(
    update={"model": "claude-sonnet-4-5", "model_endpoint_type": "anthropic", "handle": "a/b"}
)
V1 = AgentType.letta_v1_agent


@pytest.mark.parametrize(("model", "params"), SENT_BY_SDK)
def test_every_field_of_the_sdk_is_read(model: type[BaseModel], params: type) -> None:
    assert set(params.__annotations__) - IN_THE_PATH <= model.model_fields.keys()


def test_unknown_fields_are_ignored() -> None:
    request = LettaRequest.model_validate({"input": "hi", "unheard_of": 1})
    [message] = request.all_messages
    assert isinstance(message, MessageCreate)
    assert message.content == "hi"


def test_input_is_one_user_message() -> None:
    parts = [{"type": "text", "text": "look"}, {"type": "image", "source": IMAGE}]
    (message,) = LettaRequest.model_validate({"input": parts}).all_messages
    assert isinstance(message, MessageCreate)
    assert message.role == MessageRole.user
    text, _image = message.content
    assert text == TextContent(text="look")


IMAGE = {"type": "base64", "media_type": "image/png", "data": "AA=="}


def test_untyped_messages_are_told_apart_by_their_fields() -> None:
    sent = [
        {"role": "user", "content": "hi", "otid": "o", "sender_id": "s", "name": "n"},
        {"approve": True, "approval_request_id": "message-1"},
        {"type": "approval", "approvals": [{"type": "approval", **ANSWER}]},
        {"type": "approval", "approvals": [{"type": "tool", **RETURN}]},
        {"type": "tool_return", "tool_returns": [RETURN]},
    ]
    messages = LettaRequest.model_validate({"messages": sent}).all_messages
    kinds = [MessageCreate, ApprovalCreate, ApprovalCreate, ApprovalCreate, ToolReturnCreate]
    assert [type(message) for message in messages] == kinds
    assert isinstance(messages[1], ApprovalCreate)
    assert messages[1].approvals is not None
    assert messages[1].approvals[0].tool_call_id == "message-1"


ANSWER = {"tool_call_id": "call_1", "approve": False, "reason": "no"}
RETURN = {"tool_call_id": "call_1", "tool_return": "4", "status": "success"}


def test_only_conversations_stream_unless_told_not_to() -> None:
    assert not LettaStreamingRequest.model_validate({"input": "a"}).streaming
    assert ConversationMessageRequest.model_validate({"input": "a"}).streaming
    assert LettaRequest.model_validate({"input": "a", "system": "s"}).override_system == "s"


def test_bad_ids_in_a_body_are_refused() -> None:
    with pytest.raises(ValidationError, match="tool_ids"):
        CreateAgent.model_validate({"tool_ids": ["block-1"]})


def test_every_providers_settings_are_told_apart() -> None:
    settings: TypeAdapter[AnyModelSettings] = TypeAdapter(AnyModelSettings)
    for provider in ("openai", "sglang", "anthropic", "moonshot_coding", "google_vertex", "groq"):
        assert settings.validate_python({"provider_type": provider}).provider_type == provider


def test_settings_win_over_the_catalogue_and_read_back() -> None:
    asked = {
        "provider_type": "anthropic",
        "temperature": 0.2,
        "max_output_tokens": 900,
        "thinking": {"type": "disabled", "budget_tokens": 2048},
        "response_format": {"type": "json_object"},
    }
    request = CreateAgent.model_validate({"model": "a/b", "model_settings": asked})
    config = created_config(request, CLAUDE)
    assert (config.temperature, config.max_tokens, config.enable_reasoner) == (0.2, 900, False)
    shown = model_settings(config)
    assert {key: shown[key] for key in asked} == asked


def test_settings_without_output_tokens_leave_them() -> None:
    request = CreateAgent.model_validate(
        {"model": "a/b", "model_settings": {"provider_type": "openai"}, "context_window_limit": 9}
    )
    config = created_config(request, GPT)
    assert (config.max_tokens, config.context_window) == (16_384, 9)
    assert config.parallel_tool_calls


def test_a_new_model_on_update_keeps_nothing_of_the_old_but_explicit_null_clears() -> None:
    update = UpdateAgent.model_validate({"model": "a/b", "max_tokens": None})
    config = updated_config(update, GPT, CLAUDE, V1)
    assert (config.model, config.max_tokens, config.context_window) == (
        "claude-sonnet-4-5",
        None,
        128_000,
    )


def test_an_update_of_the_window_changes_nothing_else() -> None:
    update = UpdateAgent.model_validate({"context_window_limit": 5000})
    config = updated_config(update, GPT, None, V1)
    assert config == GPT.model_copy(update={"context_window": 5000})


def test_reasoning_is_switched_as_far_as_the_model_allows() -> None:
    off = UpdateAgent.model_validate({"reasoning": False})
    on = UpdateAgent.model_validate({"reasoning": True})
    assert not updated_config(off, CLAUDE, None, V1).enable_reasoner
    assert updated_config(on, CLAUDE, None, V1).max_reasoning_tokens == 1024
    assert not updated_config(on, GPT, None, V1).enable_reasoner
    opus = CLAUDE.model_copy(update={"model": "claude-opus-5"})
    adaptive = updated_config(on, opus, None, V1)
    assert (adaptive.enable_reasoner, adaptive.effort) == (True, "medium")
    assert adaptive.max_reasoning_tokens == 0, "it decides by itself"
    gpt5 = GPT.model_copy(update={"model": "gpt-5"})
    forced = updated_config(off, gpt5, None, V1)
    assert (forced.enable_reasoner, forced.reasoning_effort) == (True, "minimal")
    gpt51 = GPT.model_copy(update={"model": "gpt-5.1"})
    assert updated_config(off, gpt51, None, V1).reasoning_effort == "none"
