"""What every provider that speaks to a server must do, on the scripted model."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from services.agent.adapters.models import http_provider as providers
from services.agent.adapters.models import transport
from services.agent.adapters.models.aiohttp_transport import HttpWire
from services.agent.adapters.models.anthropic_provider import AnthropicProvider
from services.agent.adapters.models.anthropic_sdk_transport import AnthropicWire
from services.agent.adapters.models.http_provider import HttpProvider
from services.agent.adapters.models.openai_provider import OpenAIProvider
from services.agent.adapters.models.ports import (
    ModelDelta,
    ModelFailed,
    Provider,
    ProviderUnreachable,
    ToolCallDelta,
)
from services.agent.domain.prompts.model_context import ModelRequest
from services.agent.domain.runs.step_results import ModelReply
from tests.scripted_model import ScriptedModel
from tests.unit.agent.asking import reply_to, script, streamed, text_in

pytestmark = pytest.mark.parametrize("wire", ["openai", "anthropic"])

TWO_CALLS = json.dumps(
    [
        {"name": "memory_insert", "arguments": {"label": "human", "new_string": "Tea, not coffee"}},
        {"name": "conversation_search"},
    ]
)
THINKING = {"model": "claude-sonnet-4-5", "max_reasoning_tokens": 1024}
LONG = "this text is long enough to be sent in several pieces"
# Who never answers need not be waited for long; after the second, an answer has to come in time.
SILENT_SECONDS_MAX = {"HANG": 0.5, "DRIP:60000": 0.5, "HANG:1": 2.0}


@pytest.fixture
async def scripted() -> AsyncIterator[ScriptedModel]:
    async with ScriptedModel() as model:
        yield model


@pytest.fixture
async def provider(
    wire: str,
    scripted: ScriptedModel,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> AsyncIterator[HttpProvider]:
    base_url = scripted.base_url if wire == "openai" else scripted.anthropic_base_url
    fault = request.node.callspec.params.get("fault", "")
    provider = provider_at(wire, base_url, SILENT_SECONDS_MAX.get(fault, 20.0))
    monkeypatch.setattr(providers, "PAUSE_SECONDS", [0.0])
    yield provider
    await provider.close()


def provider_at(wire: str, base_url: str, silent_seconds_max: float = 20.0) -> HttpProvider:
    """A provider that is waited for so long."""
    provider: HttpProvider
    if wire == "openai":
        provider = OpenAIProvider("sk-test", base_url)
        headers = {"Authorization": "Bearer sk-test"}
        provider.wire = HttpWire(base_url, headers, seconds_max=silent_seconds_max)
    else:
        provider = AnthropicProvider("sk-test", base_url)
        provider.wire = AnthropicWire(base_url, "sk-test", seconds_max=silent_seconds_max)
    return provider


async def answer(provider: Provider, request: ModelRequest, *, in_pieces: bool) -> ModelReply:
    if in_pieces:
        return (await streamed(provider, request))[1]
    return await reply_to(provider, request)


@pytest.mark.parametrize("in_pieces", [False, True], ids=["whole", "pieces"])
class TestEitherWay:
    async def test_words_come_with_their_usage(self, provider: Provider, in_pieces: bool) -> None:
        reply = await answer(provider, script(f"SAY:{LONG}"), in_pieces=in_pieces)
        assert (reply.text, reply.tool_calls, reply.finish_reason) == (LONG, [], "stop")
        assert reply.reasoning is None
        assert reply.usage.prompt_tokens > 0
        assert reply.usage.completion_tokens > 0

    async def test_a_tool_call_comes_with_its_arguments(
        self, provider: Provider, in_pieces: bool
    ) -> None:
        arguments = {"label": "human", "new_string": "Likes tea, « très » 🍵"}
        text = f"CALL:memory_insert:{json.dumps(arguments)}"
        reply = await answer(provider, script(text), in_pieces=in_pieces)
        [call] = reply.tool_calls
        assert (call.name, json.loads(call.arguments)) == ("memory_insert", arguments)
        assert (reply.text, reply.finish_reason) == ("", "tool_calls")

    async def test_parallel_calls_come_in_their_order(
        self, provider: Provider, in_pieces: bool
    ) -> None:
        reply = await answer(provider, script(f"CALLS:{TWO_CALLS}"), in_pieces=in_pieces)
        assert [
            (tool_call.name, json.loads(tool_call.arguments)) for tool_call in reply.tool_calls
        ] == [
            ("memory_insert", {"label": "human", "new_string": "Tea, not coffee"}),
            ("conversation_search", {}),
        ]
        assert len({tool_call.id for tool_call in reply.tool_calls}) == 2

    async def test_an_empty_answer_is_an_answer(self, provider: Provider, in_pieces: bool) -> None:
        reply = await answer(provider, script("EMPTY"), in_pieces=in_pieces)
        assert (reply.text, reply.tool_calls, reply.finish_reason) == ("", [], "stop")

    async def test_thoughts_come_before_the_words(
        self, provider: Provider, in_pieces: bool
    ) -> None:
        request = script(f'THINK:"I should greet them first." SAY:{LONG}', **THINKING)
        reply = await answer(provider, request, in_pieces=in_pieces)
        assert (reply.reasoning, reply.text) == ("I should greet them first.", LONG)

    async def test_thoughts_come_before_a_call(self, provider: Provider, in_pieces: bool) -> None:
        request = script('THINK:"Look it up." CALL:conversation_search', **THINKING)
        reply = await answer(provider, request, in_pieces=in_pieces)
        assert reply.reasoning == "Look it up."
        assert [call.name for call in reply.tool_calls] == ["conversation_search"]

    async def test_an_answer_that_was_cut_short_says_so(
        self, provider: Provider, in_pieces: bool
    ) -> None:
        reply = await answer(provider, script("LENGTH SAY:cut"), in_pieces=in_pieces)
        assert (reply.text, reply.finish_reason) == ("cut", "length")

    @pytest.mark.parametrize("fault", ["FAIL:429:2", "FAIL:500:2", "HANG:1"])
    async def test_what_passes_is_tried_again(
        self, provider: Provider, scripted: ScriptedModel, in_pieces: bool, fault: str
    ) -> None:
        text = f"{fault} SAY:at last"
        assert (await answer(provider, script(text), in_pieces=in_pieces)).text == "at last"
        times = int(fault.rpartition(":")[2])
        assert (await scripted.asked(text)) == {0: times + 1}

    @pytest.mark.parametrize(
        ("fault", "error_type", "stop_reason", "words"),
        [
            ("FAIL:400", "llm_bad_request", "llm_api_error", "400"),
            ("FAIL:402", "llm_insufficient_credits", "insufficient_credits", "402"),
            (
                "FAIL:insufficient_quota",
                "llm_insufficient_credits",
                "insufficient_credits",
                "answered 4",
            ),
            ("FAIL:context_length_exceeded", "context_window_exceeded", "llm_api_error", "400"),
            ("FAIL:413", "context_window_exceeded", "llm_api_error", "413"),
            ("FAIL:401", "llm_authentication", "llm_api_error", "401"),
            ("FAIL:403", "llm_permission_denied", "llm_api_error", "403"),
            ("FAIL:404", "llm_not_found", "llm_api_error", "404"),
            ("FAIL:429", "llm_rate_limit", "llm_api_error", "429"),
            ("FAIL:408", "llm_timeout", "llm_api_error", "408"),
            ("FAIL:422", "llm_unprocessable_entity", "llm_api_error", "422"),
            ("FAIL:503", "llm_provider_overloaded", "llm_api_error", "503"),
            ("FAIL:529", "llm_provider_overloaded", "llm_api_error", "529"),
            ("FAIL:500", "llm_error", "llm_api_error", "500"),
            ("FAIL:504", "llm_timeout", "llm_api_error", "504"),
            ("HANG", "llm_timeout", "llm_api_error", "in time"),
            ("CUT", "llm_connection_error", "llm_api_error", "cannot be reached"),
            ("GARBAGE", "llm_error", "invalid_llm_response", "cannot be understood"),
        ],
    )
    async def test_what_does_not_pass_is_the_reason_why_the_run_failed(
        self,
        provider: Provider,
        scripted: ScriptedModel,
        in_pieces: bool,
        fault: str,
        error_type: str,
        stop_reason: str,
        words: str,
    ) -> None:
        text = f"{fault} SAY:{LONG}"
        with pytest.raises(ModelFailed, match=words) as raised:
            await answer(provider, script(text), in_pieces=in_pieces)
        failure = raised.value.failure
        assert (failure.error_type, failure.stop_reason) == (error_type, stop_reason)
        assert (await scripted.asked(text))[0] <= 3, "retries are bounded"


class TestTheConnection:
    async def test_it_is_used_again(self, provider: Provider, scripted: ScriptedModel) -> None:
        for number in range(3):
            await streamed(provider, script(f"SAY:number {number}"))
            await reply_to(provider, script(f"SAY:number {number}"))
        assert len(scripted.clients) == 1

    async def test_the_time_that_its_sdk_takes_to_load_is_not_the_providers(
        self, provider: HttpProvider, wire: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if not isinstance(provider.wire, AnthropicWire):
            pytest.skip("this one has no SDK")
        opened = provider.wire.new_client

        def slowly() -> Any:
            time.sleep(2.2)
            return opened()

        monkeypatch.setattr(provider.wire, "new_client", slowly)
        monkeypatch.setattr(transport, "LIST_SECONDS_MAX", 2.0)
        models, _ = await provider.models()
        assert models

    async def test_a_provider_that_is_not_there_fails_the_run_and_lists_nothing(
        self, wire: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(providers, "PAUSE_SECONDS", [0.0])
        provider = provider_at(wire, "http://127.0.0.1:9")
        for ask_it in (reply_to, streamed):
            with pytest.raises(ModelFailed) as raised:
                await ask_it(provider, script("Hi"))
            assert raised.value.failure.error_type == "llm_connection_error"
        with pytest.raises(ProviderUnreachable):
            await provider.models()
        await provider.close()


class TestPieces:
    async def test_text_comes_in_pieces(self, provider: Provider) -> None:
        deltas, _ = await streamed(provider, script(f"SAY:{LONG}"))
        assert len(deltas) > 3

    async def test_the_name_of_a_call_comes_before_its_arguments(self, provider: Provider) -> None:
        deltas, reply = await streamed(provider, script(f"CALLS:{TWO_CALLS}"))
        assert deltas[0] == ToolCallDelta(reply.tool_calls[0].id, "memory_insert")
        assert len(deltas) > 4, "the arguments come in pieces"

    async def test_broken_arguments_are_passed_on_as_they_are(self, provider: Provider) -> None:
        _, reply = await streamed(provider, script("BADARGS:memory_insert"))
        assert [tool_call.arguments for tool_call in reply.tool_calls] == ['{"broken": ']

    async def test_what_came_before_a_cut_was_shown_and_is_not_asked_again(
        self, provider: Provider, scripted: ScriptedModel
    ) -> None:
        text = f"CUT:1 SAY:{LONG}"
        shown: list[ModelDelta] = []
        with pytest.raises(ModelFailed):
            await streamed(provider, script(text), into=shown)
        assert text_in(shown)
        assert LONG.startswith(text_in(shown))
        assert await scripted.asked(text) == {0: 1}

    async def test_a_cut_before_the_first_piece_is_healed(
        self, provider: Provider, scripted: ScriptedModel
    ) -> None:
        _, reply = await streamed(provider, script("CUT:2 EMPTY"))
        assert reply.text == ""
        asked = {0: 4}  # one more for what the user is owed, once
        assert await scripted.asked("CUT:2 EMPTY") == asked

    async def test_such_a_cut_is_not_healed_for_ever(
        self, provider: Provider, scripted: ScriptedModel
    ) -> None:
        with pytest.raises(ModelFailed):
            await streamed(provider, script("CUT EMPTY"))
        assert await scripted.asked("CUT EMPTY") == {0: 3}

    @pytest.mark.parametrize("fault", ["DRIP:60000"])
    async def test_a_silence_in_the_middle_of_an_answer_is_a_timeout(
        self, provider: Provider, scripted: ScriptedModel, fault: str
    ) -> None:
        with pytest.raises(ModelFailed, match="in time") as raised:
            await streamed(provider, script(f"{fault} SAY:{LONG}"))
        assert raised.value.failure.error_type == "llm_timeout"
        await scripted.wait_for_count("abandoned")

    async def test_whoever_stops_reading_closes_the_connection(
        self, provider: Provider, scripted: ScriptedModel
    ) -> None:
        request = replace(script(f"DRIP:100 SAY:{LONG}"), stream_tokens=True)
        async with aclosing(provider.stream(request)) as events:
            await anext(events)
        await scripted.wait_for_count("abandoned")

    @pytest.mark.parametrize("text", ["HANG", f"DRIP:60000 SAY:{LONG}"])
    async def test_a_cancelled_question_closes_the_connection(
        self, provider: Provider, scripted: ScriptedModel, text: str
    ) -> None:
        asking = asyncio.create_task(streamed(provider, script(text)))
        await scripted.wait_for_asked(text)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await scripted.wait_for_count("abandoned")
