"""What is Anthropic's own: its messages, its thinking, its errors, its list of models."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from libs.contracts.agent.conversations import Message, ReasoningPart, ToolCall
from libs.contracts.letta.model_configs import JsonSchemaResponseFormat
from services.agent.adapters.models import http_provider as providers
from services.agent.adapters.models.anthropic_answer import AnthropicAnswer
from services.agent.adapters.models.anthropic_provider import AnthropicProvider
from services.agent.adapters.models.anthropic_request import AFTER_THE_LAST, BEFORE_THE_FIRST
from services.agent.adapters.models.ports import ModelFailed
from services.agent.adapters.models.provider_error_words import failure_of
from services.agent.domain.runs.step_results import ModelReply
from tests.contract.examples import CALLED, RETURNED, SAID, SYSTEM, THOUGHT, message
from tests.scripted_model import ScriptedModel, messages_validator
from tests.unit.agent.anthropic_documents import body_of, reply_of
from tests.unit.agent.asking import GivenWire, ask, check_sum, reply_to, streamed

SONNET = {"model": "claude-sonnet-4-5", "max_reasoning_tokens": 2048, "max_tokens": 8192}
ADAPTIVE = {"type": "adaptive", "display": "summarized"}
PLAIN = {"model": "claude-sonnet-4-5", "enable_reasoner": False}


@pytest.fixture
async def scripted() -> AsyncIterator[ScriptedModel]:
    async with ScriptedModel() as model:
        yield model


@pytest.fixture
async def provider(scripted: ScriptedModel) -> AsyncIterator[AnthropicProvider]:
    provider = AnthropicProvider("sk-test", scripted.anthropic_base_url)
    yield provider
    await provider.close()


def thinking_up_to(tokens: int) -> dict[str, Any]:
    return {"type": "enabled", "budget_tokens": tokens}


def user(number: int, text: Any) -> Message:
    return message(number, role="user", content=text)


def said(number: int, reply: ModelReply) -> Message:
    """A reply as it is kept."""
    return message(
        number,
        role="assistant",
        content=reply.text or None,
        reasoning_parts=reply.reasoning_parts,
        tool_calls=reply.tool_calls,
    )


def returned(number: int, call: ToolCall, **fields: Any) -> Message:
    fields = {"content": "ok", "tool_status": "success", **fields}
    return message(number, role="tool", tool_call_id=call.id, name=call.name, **fields)


def sent(*messages: Message, **options: Any) -> list[Any]:
    """The messages as the wire has them; the strict validator must take them."""
    body = body_of(ask(*messages, **{**PLAIN, **options}))
    if THOUGHT not in messages:  # whose signature is made up
        assert messages_validator.check(body) is None
    return body["messages"]  # type: ignore[return-value]


class TestMessages:
    async def test_a_whole_history_is_sent_so_that_a_strict_provider_takes_it(
        self, provider: AnthropicProvider, scripted: ScriptedModel
    ) -> None:
        failed = RETURNED.model_copy(update={"tool_status": "error", "content": "No."})
        silent = message(60, role="assistant", content=None)
        last = user(61, [{"type": "text", "text": "SAY:ok"}])
        request = ask(SYSTEM, SAID, CALLED, failed, silent, last, parallel=False, **SONNET)
        assert (await reply_to(provider, request)).text == "ok"
        [body] = await scripted.requests()
        assert (body["model"], body["max_tokens"]) == ("claude-sonnet-4-5", 8192)
        assert body["system"][0]["text"] == SYSTEM.content
        assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
        assert [tool["name"] for tool in body["tools"]] == ["memory_insert", "conversation_search"]
        assert body["tools"][0]["input_schema"]["required"] == ["label", "new_string"]
        question, called, results = body["messages"]
        assert question == {"role": "user", "content": [{"type": "text", "text": "I like tea"}]}
        assert called["content"][0] == {"type": "text", "text": "Noted."}
        assert called["content"][1]["input"] == {"label": "human", "new_string": "Likes tea"}
        assert [block["type"] for block in results["content"]] == ["tool_result", "text"]
        assert results["content"][0]["is_error"] is True
        envelope = json.loads(results["content"][0]["content"])
        assert envelope == {"status": "Failed", "message": "No."}

    def test_the_user_has_the_first_word_and_the_last(self) -> None:
        greeting = message(1, role="assistant", content="Hello.")
        first, second, third = sent(SYSTEM, greeting)
        assert first["content"] == [{"type": "text", "text": BEFORE_THE_FIRST}]
        assert second["content"] == [{"type": "text", "text": "Hello."}]
        assert third["content"][0]["text"] == AFTER_THE_LAST

    def test_what_has_no_words_is_left_out(self) -> None:
        [only] = sent(SYSTEM, user(1, "  "), message(2, role="assistant"), user(3, "Hi"))
        assert [block["text"] for block in only["content"]] == ["Hi"]

    def test_ids_of_other_providers_become_such_that_they_are_taken(self) -> None:
        odd = ToolCall(id="functions.look:0", name="look", arguments="[1")
        history: list[Message] = [user(1, "Hi")]
        for number in (10, 20):
            history.append(message(number, role="assistant", tool_calls=[odd]))
            history.append(returned(number + 1, odd))
        _, first, _, second, _ = sent(SYSTEM, *history)
        ids = [turn["content"][0]["id"] for turn in (first, second)]
        assert len(set(ids)) == 2
        assert first["content"][0]["input"] == {"arguments": "[1"}

    def test_images_are_sent_by_address_or_inline(self) -> None:
        inline = {"type": "base64", "media_type": "image/png", "data": "QQ"}
        parts = [
            {"type": "image", "source": {"type": "url", "url": "http://a/b.png"}},
            {"type": "image", "source": inline},
            {"type": "text", "text": "What is it?"},
        ]
        [shown] = sent(SYSTEM, user(1, parts))
        assert [block["type"] for block in shown["content"]] == ["image", "image", "text"]
        assert shown["content"][0]["source"] == {"type": "url", "url": "http://a/b.png"}
        assert shown["content"][1]["source"] == inline

    def test_what_the_next_request_begins_with_is_marked_for_the_cache(self) -> None:
        body: Any = body_of(ask(SYSTEM, user(1, "Hi"), **PLAIN))
        assert body["system"][0]["cache_control"] == {"type": "ephemeral"}
        assert body["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}

    def test_the_temperature_is_told_where_it_may_be(self) -> None:
        question = user(1, "Hi")
        assert body_of(ask(question, temperature=0.2, **PLAIN))["temperature"] == 0.2
        assert body_of(ask(question, temperature=1.7, **PLAIN))["temperature"] == 1.0
        assert "temperature" not in body_of(ask(question, temperature=0.2, **SONNET))
        later = {**PLAIN, "model": "claude-opus-4-7"}
        assert "temperature" not in body_of(ask(question, temperature=0.2, **later))

    def test_a_schema_for_the_answer_is_passed_on(self) -> None:
        schema: Any = {"name": "city", "schema": {"type": "object"}}
        wanted = JsonSchemaResponseFormat(json_schema=schema)
        body = body_of(ask(user(1, "Hi"), response_format=wanted, effort="low", **PLAIN))
        assert body["output_config"] == {
            "effort": "low",
            "format": {"type": "json_schema", "schema": {"type": "object"}},
        }


class TestThinking:
    @pytest.mark.parametrize(
        ("llm", "thinking", "max_tokens"),
        [
            (SONNET, thinking_up_to(2048), 8192),
            (
                {**SONNET, "max_reasoning_tokens": 1},
                thinking_up_to(1024),
                8192,
            ),
            ({**SONNET, "max_tokens": 2000}, thinking_up_to(2048), 4048),
            ({**SONNET, "max_tokens": None}, thinking_up_to(2048), 4096),
            ({**SONNET, "max_reasoning_tokens": 0}, None, 8192),
            ({**SONNET, "enable_reasoner": False}, None, 8192),
            ({**SONNET, "model": "claude-opus-4-6"}, ADAPTIVE, 8192),
            ({**SONNET, "model": "claude-opus-5"}, ADAPTIVE, 8192),
            (
                {**SONNET, "model": "claude-sonnet-4-20250514"},
                thinking_up_to(2048),
                8192,
            ),
        ],
    )
    def test_it_is_asked_for_as_the_agent_is_set_up(
        self, llm: Any, thinking: Any, max_tokens: int
    ) -> None:
        body = body_of(ask(SYSTEM, user(1, "Hi"), **llm))
        assert (body.get("thinking"), body["max_tokens"]) == (thinking, max_tokens)
        assert messages_validator.check(body) is None

    @pytest.mark.parametrize("in_pieces", [False, True])
    async def test_thoughts_go_back_as_they_came_when_a_call_follows(
        self, provider: AnthropicProvider, scripted: ScriptedModel, in_pieces: bool
    ) -> None:
        script = 'REDACTED THINK:"Look it up." CALL:conversation_search SAY:Found it.'
        request = ask(SYSTEM, user(1, script), **SONNET)
        reply = (
            (await streamed(provider, request))[1]
            if in_pieces
            else await reply_to(provider, request)
        )
        hidden, clear = reply.reasoning_parts
        assert hidden.redacted
        assert (clear.text, bool(clear.signature)) == ("Look it up.", True)
        assert reply.reasoning == "Look it up."
        [call] = reply.tool_calls
        request = ask(SYSTEM, user(1, script), said(2, reply), returned(3, call), **SONNET)
        assert (await reply_to(provider, request)).text == "Found it."
        body = (await scripted.requests())[-1]
        assert body["thinking"] == thinking_up_to(2048)
        assert [block["type"] for block in body["messages"][1]["content"]] == [
            "redacted_thinking",
            "thinking",
            "tool_use",
        ]

    def test_a_turn_that_began_without_thoughts_goes_on_without(self) -> None:
        body = body_of(ask(SYSTEM, user(1, "Hi"), CALLED, RETURNED, **SONNET))
        assert "thinking" not in body
        assert messages_validator.check(body) is None
        adaptive = {**SONNET, "model": "claude-sonnet-4-6"}
        free = body_of(ask(SYSTEM, user(1, "Hi"), CALLED, RETURNED, **adaptive))
        assert free["thinking"] == ADAPTIVE, "such a model may begin without"
        assert messages_validator.check(free) is None
        later = body_of(ask(SYSTEM, SAID, CALLED, RETURNED, user(9, "And?"), **SONNET))
        assert later["thinking"] == thinking_up_to(2048)

    def test_thoughts_stay_away_from_a_model_that_shall_not_think(self) -> None:
        _, called, _ = sent(SYSTEM, SAID, THOUGHT, RETURNED)
        assert [block["type"] for block in called["content"]] == ["text", "tool_use"]

    def test_what_another_provider_thought_is_not_sent(self) -> None:
        thought = message(3, role="assistant", content="Hi", reasoning="Greet.")
        _, answered, _ = sent(SYSTEM, SAID, thought, user(4, "?"), **SONNET)
        assert [block["type"] for block in answered["content"]] == ["text"]

    def test_a_thought_that_is_not_shown_is_kept_for_its_signature(self) -> None:
        block = {"type": "thinking", "thinking": "", "signature": "c2ln"}
        reply = reply_of({"content": [block, {"type": "text", "text": "Hi"}]})
        assert reply.reasoning_parts == [ReasoningPart(signature="c2ln")]
        assert reply.reasoning is None


class TestAnswers:
    @pytest.mark.parametrize(
        ("stop_reason", "finish_reason"),
        [
            ("end_turn", "stop"),
            ("stop_sequence", "stop"),
            ("tool_use", "tool_calls"),
            ("max_tokens", "length"),
            ("model_context_window_exceeded", "length"),
            ("refusal", "content_filter"),
            (None, "stop"),
            ("news", "news"),
        ],
    )
    def test_why_it_ended_is_told_in_the_words_of_all_providers(
        self, stop_reason: Any, finish_reason: str
    ) -> None:
        reply = reply_of({"content": [], "stop_reason": stop_reason})
        assert reply.finish_reason == finish_reason

    def test_tokens_of_the_cache_are_part_of_the_prompt(self) -> None:
        usage = {
            "input_tokens": 3,
            "output_tokens": 4,
            "cache_read_input_tokens": 50,
            "cache_creation_input_tokens": 7,
            "output_tokens_details": {"thinking_tokens": 2},
        }
        assert reply_of({"content": [], "usage": usage}).usage.model_dump() == {
            "prompt_tokens": 60,
            "completion_tokens": 4,
            "cached_input_tokens": 50,
            "cache_write_tokens": 7,
            "reasoning_tokens": 2,
        }

    def test_the_last_count_of_a_stream_is_the_whole(self) -> None:
        answer = AnthropicAnswer("seed")
        events: list[Any] = [
            {
                "type": "message_start",
                "message": {"usage": {"input_tokens": 9, "output_tokens": 1}},
            },
            {"type": "ping"},
            {"type": "something_new"},
            {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 5}},
            {"type": "message_stop"},
        ]
        for event in events:
            assert answer.read(json.dumps(event)) == []
        usage = answer.end()[1].usage
        assert (usage.prompt_tokens, usage.completion_tokens) == (9, 5)

    def test_pieces_are_put_together_whatever_they_look_like(self) -> None:
        blocks = [
            ({"type": "thinking", "thinking": "A"}, [("thinking_delta", "thinking", "B\x00")]),
            ({"type": "thinking", "thinking": ""}, [("signature_delta", "signature", "c2ln")]),
            ({"type": "text", "text": "Hi "}, [("text_delta", "text", "you")]),
            ({"type": "news"}, []),
            ({"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}, []),
            (
                {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}},
                [("input_json_delta", "partial_json", '{"a": "\\ud83d\\ude00"}')],
            ),
        ]
        answer, deltas = AnthropicAnswer("seed"), []
        for block, pieces in blocks:
            events: list[Any] = [{"type": "content_block_start", "content_block": block}]
            for kind, name, text in pieces:
                delta = {"type": kind, name: text}
                events.append({"type": "content_block_delta", "delta": delta})
            events.append({"type": "content_block_stop"})
            deltas += [delta for event in events for delta in answer.read(json.dumps(event))]
        last, reply = answer.end()
        check_sum([*deltas, *last], reply)
        assert reply.reasoning_parts == [
            ReasoningPart(text="AB"),
            ReasoningPart(signature="c2ln"),
        ]
        assert reply.text == "Hi you"
        assert [call.arguments for call in reply.tool_calls] == [
            "{}",
            '{"a": "\N{GRINNING FACE}"}',
        ]
        assert len({call.id for call in reply.tool_calls}) == 2

    @pytest.mark.parametrize(
        "body",
        [
            [],
            None,
            {},
            {"content": None},
            {"type": "message", "stop_reason": "end_turn"},
        ],
    )
    async def test_an_answer_of_another_shape_fails_the_run_and_is_no_bug(self, body: Any) -> None:
        provider = AnthropicProvider("k", "http://x")
        provider.wire = GivenWire(body)
        with pytest.raises(ModelFailed) as raised:
            await reply_to(provider, ask(SYSTEM, user(1, "Hi"), **PLAIN))
        failure = raised.value.failure
        assert (failure.error_type, failure.stop_reason) == ("llm_error", "invalid_llm_response")


class TestErrors:
    @pytest.mark.parametrize(
        ("status", "kind", "message", "error_type"),
        [
            (400, "invalid_request_error", "Nope", "llm_bad_request"),
            (
                400,
                "invalid_request_error",
                "input length and `max_tokens` exceed context limit: 190000 + 16384 > 200000",
                "context_window_exceeded",
            ),
            (
                400,
                "invalid_request_error",
                "Your credit balance is too low",
                "llm_insufficient_credits",
            ),
            (529, "overloaded_error", "Overloaded", "llm_provider_overloaded"),
        ],
    )
    def test_they_are_told_apart_by_their_words_too(
        self, status: int, kind: str, message: str, error_type: str
    ) -> None:
        body = {"type": "error", "error": {"type": kind, "message": message}}
        failure = failure_of("anthropic", status, body, "")
        assert (failure.error_type, failure.detail) == (error_type, kind)
        assert message in failure.message

    def test_a_body_that_says_nothing_is_no_bug(self) -> None:
        assert "gateway" in failure_of("anthropic", 502, None, "gateway").message
        assert failure_of("anthropic", 500, {"error": "odd"}, "odd").error_type == "llm_error"

    @pytest.mark.parametrize(
        ("kind", "error_type"),
        [
            ("overloaded_error", "llm_provider_overloaded"),
            ("rate_limit_error", "llm_rate_limit"),
            ("billing_error", "llm_insufficient_credits"),
            ("timeout_error", "llm_timeout"),
            ("api_error", "llm_error"),
            ("news", "llm_error"),
        ],
    )
    async def test_an_error_in_the_middle_of_a_stream_is_the_reason(
        self, kind: str, error_type: str
    ) -> None:
        event = {"type": "error", "error": {"type": kind, "message": "Sorry"}}
        begun = {"type": "content_block_start", "content_block": {"type": "text", "text": "Hi"}}
        provider = AnthropicProvider("k", "http://x")
        provider.wire = GivenWire([begun, event])
        with pytest.raises(ModelFailed, match="Sorry") as raised:
            await streamed(provider, ask(SYSTEM, user(1, "Hi"), **PLAIN))
        assert raised.value.failure.error_type == error_type


class TestOverload:
    async def test_it_is_waited_out_until_the_first_piece(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(providers, "PAUSE_SECONDS", [0.0])
        provider = AnthropicProvider("k", "http://x")
        busy = {"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}
        hi = {"type": "content_block_start", "content_block": {"type": "text", "text": "Hi"}}
        provider.wire = wire = GivenWire([busy], [busy], [hi, {"type": "message_stop"}])
        question = ask(SYSTEM, user(1, "Hi"), **PLAIN)
        assert (await streamed(provider, question))[1].text == "Hi"
        assert (wire.answers, wire.closed) == ([], 3)
        for lost in ([[hi, busy]], [[busy]] * 3):
            provider.wire = wire = GivenWire(*lost)
            with pytest.raises(ModelFailed, match="Busy"):
                await streamed(provider, question)
            assert wire.answers == []


class TestModels:
    async def test_they_come_with_the_handles_and_limits_of_v1(
        self, provider: AnthropicProvider
    ) -> None:
        llms, embeddings = await provider.models()
        assert embeddings == []
        assert [llm.handle for llm in llms] == sorted(str(llm.handle) for llm in llms)
        found = {llm.handle: llm for llm in llms}
        sonnet = found["anthropic/claude-sonnet-4-5-20250929"]
        assert (sonnet.context_window, sonnet.max_tokens) == (200_000, 16_384)
        assert sonnet.model_endpoint_type == "anthropic"
        assert sonnet.model_endpoint == f"{provider.base_url}/v1"
        assert found["anthropic/claude-haiku-4-5"].model == "claude-haiku-4-5-20251001"
        assert found["anthropic/claude-3-5-haiku"].max_tokens == 8_192
        assert found["anthropic/claude-opus-4-6"].max_tokens == 21_000

    def test_the_endpoint_knows_its_windows_better(self) -> None:
        provider = AnthropicProvider("k", "http://x")
        config = provider.chat_model({"id": "claude-opus-9", "max_input_tokens": 1_000_000})
        assert (config.context_window, config.max_tokens) == (1_000_000, 8_192)

    async def test_a_retired_model_is_not_offered(
        self, provider: AnthropicProvider, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def listed(*_: Any) -> list[Any]:
            return [{"id": "claude-1", "lifecycle": "retired"}, {"id": "claude-2"}]

        monkeypatch.setattr(provider, "list_models", listed)
        llms, _ = await provider.models()
        assert [llm.model for llm in llms] == ["claude-2"]


def test_a_request_for_pieces_says_so() -> None:
    request = ask(SYSTEM, user(1, "Hi"), **PLAIN)
    assert "stream" not in body_of(request)
    assert body_of(replace(request, stream_tokens=True))["stream"] is True


def test_a_history_with_calls_is_accepted_from_an_agent_that_has_no_tools_any_more() -> None:
    body: Any = body_of(ask(SYSTEM, SAID, CALLED, RETURNED, tools=[], **PLAIN))
    assert messages_validator.check(body) is None
    assert [tool["name"] for tool in body["tools"]] == [CALLED.tool_calls[0].name]
    assert body["tool_choice"] == {"type": "none"}
    assert "tools" not in body_of(ask(SYSTEM, SAID, tools=[], **PLAIN))
