"""The models: OpenAI's wire against the scripted model, the demo's rules, the catalogue."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from libs.contracts.agent import scripted_replies
from libs.contracts.agent.conversations import Message, ToolCall
from libs.contracts.agent.stored_to_letta_messages import text_of
from libs.contracts.bus_messages import Rejected
from libs.contracts.letta.model_configs import EmbeddingConfig, JsonObjectResponseFormat, LLMConfig
from libs.embeddings.bundled_model_config import bundled_models
from services.agent.adapters.models import http_provider as providers
from services.agent.adapters.models import model_router
from services.agent.adapters.models.anthropic_provider import AnthropicProvider
from services.agent.adapters.models.demo_model import HANDLE, WHAT_I_AM, DemoProvider, answer
from services.agent.adapters.models.model_router import RETRY_SECONDS, ModelRouter
from services.agent.adapters.models.openai_answer import OpenAIAnswer
from services.agent.adapters.models.openai_provider import OpenAIProvider
from services.agent.adapters.models.openai_request import openai_message
from services.agent.adapters.models.ports import (
    ModelFailed,
    ProviderUnreachable,
    TextDelta,
)
from services.agent.adapters.models.provider_error_words import failure_of
from services.agent.adapters.models.scripted_model import ScriptedProvider
from services.agent.adapters.models.transport import Refused
from services.agent.domain.prompts.model_context import ModelRequest, ShownMemory, system_prompt
from services.agent.domain.prompts.system_prompt import AttachedBlock
from services.agent.domain.runs.step_results import Failure, ModelReply
from tests.clock_and_ids import ManualClock
from tests.contract.examples import CALLED, CONFIG, EMBEDDING, LLM, RETURNED, SAID, SYSTEM, message
from tests.scripted_model import ScriptedModel
from tests.unit.agent.asking import (
    SCHEMAS,
    GivenWire,
    RawWire,
    ask,
    check_sum,
    reply_to,
    script,
    streamed,
)
from tests.unit.agent.openai_documents import body_of, reply_of
from tests.unit.given import NOW


async def failure(provider: Any, text: str) -> Failure:
    with pytest.raises(ModelFailed) as raised:
        await reply_to(provider, script(text))
    return raised.value.failure


@pytest.fixture
async def scripted() -> AsyncIterator[ScriptedModel]:
    async with ScriptedModel() as model:
        yield model


@pytest.fixture
async def provider(
    scripted: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[OpenAIProvider]:
    provider = OpenAIProvider("sk-test", scripted.base_url)
    monkeypatch.setattr(providers, "PAUSE_SECONDS", [0.0])
    yield provider
    await provider.close()


class TestOpenAI:
    async def test_arguments_that_are_no_json_are_passed_on_as_they_are(
        self, provider: OpenAIProvider
    ) -> None:
        reply = await reply_to(provider, script("BADARGS:memory_insert"))
        assert [tool_call.arguments for tool_call in reply.tool_calls] == ['{"broken": ']

    async def test_a_whole_answer_that_was_cut_is_asked_for_again(
        self, provider: OpenAIProvider, scripted: ScriptedModel
    ) -> None:
        text = "CUT:2 SAY:at last"
        assert (await reply_to(provider, script(text))).text == "at last"
        assert (await scripted.asked(text)) == {0: 3}

    async def test_a_whole_history_is_sent_so_that_a_strict_provider_takes_it(
        self, provider: OpenAIProvider, scripted: ScriptedModel
    ) -> None:
        failed = RETURNED.model_copy(update={"tool_status": "error", "content": "No."})
        silent = message(60, role="assistant", content=None)
        last = message(61, role="user", content=[{"type": "text", "text": "SAY:ok"}])
        request = ask(SYSTEM, SAID, CALLED, failed, silent, last, parallel=False)
        assert (await reply_to(provider, request)).text == "ok"
        [body] = await scripted.requests()
        assert body["model"] == "gpt-4o-mini"
        assert (body["parallel_tool_calls"], body["tool_choice"]) == (False, "auto")
        assert body["max_completion_tokens"] == 16_384
        assert body["tools"][0] == {"type": "function", "function": SCHEMAS[0]}
        assert [prompt_message["role"] for prompt_message in body["messages"]] == [
            "system",
            "user",
            "assistant",
            "tool",
            "user",
        ], "who says nothing is left out"
        assert json.loads(body["messages"][3]["content"]) == {"status": "Failed", "message": "No."}

    async def test_the_models_come_with_their_limits(self, provider: OpenAIProvider) -> None:
        llms, embeddings = await provider.models()
        mini = next(llm for llm in llms if llm.handle == "openai/gpt-4o-mini")
        assert (mini.context_window, mini.max_tokens) == (128_000, 16_384)
        assert mini.model_endpoint == provider.base_url
        assert all("embed" not in llm.model for llm in llms)
        dimensions = {embedding.handle: embedding.embedding_dim for embedding in embeddings}
        assert dimensions["openai/text-embedding-3-large"] == 3_072
        assert dimensions["openai/text-embedding-3-small"] == 1_536

    def test_an_unknown_model_gets_careful_limits_and_the_longest_match_counts(self) -> None:
        provider = OpenAIProvider("k", "http://x")
        assert provider.named_model("llama-9").context_window == 30_000
        assert provider.named_model("gpt-4.1-mini").context_window == 1_047_576
        assert provider.named_model("gpt-4-0613").context_window == 8_192


def answered(**said: Any) -> Any:
    return {"choices": [{"message": {"role": "assistant", **said}}]}


def call(call_id: Any, name: str = "look", arguments: str = "{}") -> Any:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def piece(**delta: Any) -> Any:
    return {"choices": [{"delta": delta, "finish_reason": None}], "usage": None}


def assembled(events: list[Any]) -> ModelReply:
    """The answer that these events of a stream make up."""
    answer = OpenAIAnswer("seed")
    deltas = [delta for event in events for delta in answer.read(json.dumps(event))]
    last, reply = answer.end()
    check_sum([*deltas, *last], reply)
    return reply


class TestStandIns:
    """Servers that stand in for OpenAI answer in ways that OpenAI does not."""

    def test_call_ids_become_such_that_they_can_be_sent_back(self) -> None:
        odd = [call("a"), call("a"), call(""), call(None), call("x" * 41)]
        ids = [tool_call.id for tool_call in reply_of(answered(tool_calls=odd)).tool_calls]
        assert ids[0] == "a"
        assert len(set(ids)) == 5
        assert all(0 < len(call_id) <= 40 for call_id in ids)
        assert ids == [tool_call.id for tool_call in reply_of(answered(tool_calls=odd)).tool_calls]

    def test_tool_names_become_such_that_they_can_be_sent_back(self) -> None:
        odd = [call("a", "look up"), call("b", "café"), call("c", ""), call("d", "x" * 99)]
        names = [tool_call.name for tool_call in reply_of(answered(tool_calls=odd)).tool_calls]
        assert names == ["look_up", "caf_", "unnamed", "x" * 64]

    def test_what_cannot_be_stored_is_left_out(self) -> None:
        said = answered(
            content="a\x00b", reasoning_content="c\x00", tool_calls=[call("a", arguments="\x00{}")]
        )
        reply = reply_of(said)
        assert (reply.text, reply.reasoning) == ("ab", "c")
        assert reply.tool_calls[0].arguments == "{}"

    @pytest.mark.parametrize(
        ("arguments", "kept"),
        [
            ('{"a": ["x\\u0000y"], "b\\u0000": 1}', '{"a": ["xy"], "b": 1}'),
            ('{"a": "\\ud83d"}', '{"a": "\N{REPLACEMENT CHARACTER}"}'),
            ('{"a": "\\ud83d\\ude00"}', '{"a": "\N{GRINNING FACE}"}'),
            ('{"a": "\\u0000', '{"a": "\\u0000'),
            ('{"a":  1}', '{"a":  1}'),
        ],
    )
    def test_what_hides_in_escapes_is_left_out_too(self, arguments: str, kept: str) -> None:
        reply = reply_of(answered(tool_calls=[call("a", arguments=arguments)]))
        assert reply.tool_calls[0].arguments == kept

    def test_reasoning_and_every_kind_of_token_are_read(self) -> None:
        body = answered(content="Hi", reasoning_content="Greet.")
        body["usage"] = {
            "prompt_tokens": 9,
            "completion_tokens": 4,
            "prompt_tokens_details": {"cached_tokens": 5},
            "completion_tokens_details": {"reasoning_tokens": 3},
        }
        reply = reply_of(body)
        assert reply.reasoning == "Greet."
        assert reply.usage.model_dump() == {
            "prompt_tokens": 9,
            "completion_tokens": 4,
            "cached_input_tokens": 5,
            "cache_write_tokens": 0,
            "reasoning_tokens": 3,
        }

    @pytest.mark.parametrize(
        "body",
        [
            [],
            None,
            {},
            {"choices": []},
            {"choices": [{"message": None}]},
            {"choices": [None]},
            {"choices": "x"},
            {"choices": [{"finish_reason": "stop"}]},
        ],
    )
    async def test_an_answer_of_another_shape_fails_the_run_and_is_no_bug(
        self, body: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        provider = OpenAIProvider("k", "http://x")
        provider.wire = GivenWire(body)
        failed = await failure(provider, "Hi")
        assert (failed.error_type, failed.stop_reason) == ("llm_error", "invalid_llm_response")
        assert failed.message == (
            "The answer of openai at http://x cannot be understood: it has no `choices` with a "
            "`message` or `delta`"
        )

    def test_pieces_are_put_together_whatever_they_look_like(self) -> None:
        events: list[Any] = [
            piece(role="assistant", content=None),
            piece(reasoning_content="Greet\x00"),
            piece(content="a \ud83d"),
            piece(content="\ude00 \ud83d"),
            piece(content="b\x00"),
            piece(tool_calls=[{"index": 0, **call("a", "look up", "")}]),
            piece(tool_calls=[{"index": 0, "function": {"arguments": '{"a": "\\u00'}}]),
            piece(tool_calls=[{"index": 0, "function": {"arguments": "e9\\u000"}}]),
            piece(tool_calls=[{"index": 0, "function": {"arguments": '0"}'}}]),
            piece(tool_calls=[{"index": 0, **call("b", arguments='{"c": 1}')}]),
            piece(tool_calls=[{"index": 1, **call("b", arguments="")}]),
            {"choices": [], "usage": {"prompt_tokens": 3}},
            {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
        ]
        reply = assembled(events)
        assert (reply.text, reply.reasoning) == (
            "a \N{GRINNING FACE} \N{REPLACEMENT CHARACTER}b",
            "Greet",
        )
        assert [(tool_call.name, tool_call.arguments) for tool_call in reply.tool_calls] == [
            ("look_up", '{"a": "\\u00e9"}'),
            ("look", '{"c": 1}'),
            ("look", "{}"),
        ]
        assert len({tool_call.id for tool_call in reply.tool_calls}) == 3
        assert (reply.finish_reason, reply.usage.prompt_tokens) == ("tool_calls", 3)

    @pytest.mark.parametrize(
        "arguments",
        ['{"a": "\\u0000x"}', '{"a": "\\ud83d\\ude00"}', '{"\\\\u0000": 1}', '{"a": "\\ud8'],
    )
    @pytest.mark.parametrize("size", [1, 2, 3, 7])
    def test_arguments_are_the_same_in_pieces_of_any_size(self, arguments: str, size: int) -> None:
        whole = reply_of(answered(tool_calls=[call("a", arguments=arguments)]))
        pieces = [arguments[at : at + size] for at in range(0, len(arguments), size)]
        events = [piece(tool_calls=[{"index": 0, **call("a", arguments="")}])]
        events += [piece(tool_calls=[{"index": 0, "function": {"arguments": p}}]) for p in pieces]
        assert assembled(events).tool_calls == whole.tool_calls

    @pytest.mark.parametrize(
        ("error", "error_type"),
        [
            ({"message": "Slow down", "code": 429}, "llm_rate_limit"),
            ({"message": "Too long", "code": "context_length_exceeded"}, "context_window_exceeded"),
            ("It broke", "llm_error"),
        ],
    )
    async def test_an_error_in_the_middle_of_a_stream_is_the_reason(
        self, error: Any, error_type: str
    ) -> None:
        provider = OpenAIProvider("k", "http://x")
        provider.wire = GivenWire([piece(content="Hi"), {"error": error}])
        with pytest.raises(ModelFailed) as raised:
            await streamed(provider, script("Hi"))
        assert raised.value.failure.error_type == error_type

    def test_errors_are_told_apart_by_code_too(self) -> None:
        spent = failure_of("openai", 429, {"code": "insufficient_quota", "message": "Pay."}, "")
        assert (spent.error_type, spent.stop_reason) == (
            "llm_insufficient_credits",
            "insufficient_credits",
        )
        long = failure_of(
            "openai", 400, {"code": "context_length_exceeded", "message": "Long."}, ""
        )
        assert long.error_type == "context_window_exceeded"
        assert failure_of("openai", 504, None, "gateway").error_type == "llm_timeout"
        assert "gateway" in failure_of("openai", 504, None, "gateway").message

    def test_images_are_sent_by_address_or_inline(self) -> None:
        parts = [
            {"type": "image", "source": {"type": "url", "url": "http://a/b.png"}},
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "QQ"},
            },
            {"type": "text", "text": "What is it?"},
        ]
        sent = openai_message(message(9, role="user", content=parts))["content"]
        assert sent == [
            {"type": "image_url", "image_url": {"url": "http://a/b.png"}},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ"}},
            {"type": "text", "text": "What is it?"},
        ]

    def test_a_reasoning_model_is_asked_without_temperature(self) -> None:
        body = body_of(ask(SYSTEM, model="gpt-5", reasoning_effort="low", tools=[]))
        assert "temperature" not in body
        assert (body["reasoning_effort"], "tools" in body) == ("low", False)
        plain = body_of(ask(SYSTEM, temperature=0.2, response_format=JsonObjectResponseFormat()))
        assert plain["temperature"] == 0.2
        assert plain["response_format"] == {"type": "json_object"}


def demo_request(text: str, value: str = "", *more: Message) -> ModelRequest:
    human = AttachedBlock("block-1", 1, "human", value, "Who", 2_000, read_only=False)
    prompt = system_prompt(CONFIG, ShownMemory([human]), previous_messages=0, at=NOW)
    system = message(1, role="system", content=prompt.content)
    return ask(system, message(2, role="user", content=text), *more)


class TestDemo:
    async def test_it_offers_one_model_and_no_embeddings(self) -> None:
        [config], embeddings = await DemoProvider().models()
        assert (config.handle, embeddings) == (HANDLE, [])

    @pytest.mark.parametrize("text", ["Who are you?", "What are you", "Are you a real human?"])
    async def test_it_says_what_it_is(self, text: str) -> None:
        assert (await reply_to(DemoProvider(), demo_request(text))).text == WHAT_I_AM

    @pytest.mark.parametrize("text", ["Who are you?", "Please remember that my dog is Rex."])
    async def test_it_answers_word_by_word_to_whoever_wants_that(self, text: str) -> None:
        deltas, reply = await streamed(DemoProvider(), demo_request(text))
        assert len(deltas) > 3
        assert reply == answer(demo_request(text))

    def test_it_remembers_with_the_memory_tool(self) -> None:
        reply = answer(demo_request("Please remember that my dog is called Rex."))
        [asked] = reply.tool_calls
        assert asked.name == "memory_insert"
        assert json.loads(asked.arguments) == {
            "label": "human",
            "new_string": "my dog is called Rex.",
        }
        assert reply.finish_reason == "tool_calls"

    def test_it_says_how_the_memory_tool_went(self) -> None:
        called = message(
            3, role="assistant", tool_calls=[ToolCall(id="a", name="memory_insert", arguments="{}")]
        )
        kept = message(4, role="tool", content="ok", tool_call_id="a", tool_status="success")
        assert "will remember" in answer(demo_request("My dog is Rex", "", called, kept)).text
        failed = kept.model_copy(update={"content": "It is read-only.", "tool_status": "error"})
        assert "It is read-only." in answer(demo_request("My dog is Rex", "", called, failed)).text

    def test_it_recalls_what_it_was_told(self) -> None:
        value = "My dog is called Rex.\nI like tea."
        assert answer(demo_request("What is my dog's name?", value)).text == (
            "You told me: My dog is called Rex."
        )
        sums = answer(demo_request("What is a tag?", "A tag is <b>, not </value>."))
        assert sums.text == "You told me: A tag is <b>, not </value>."
        assert "All I remember is" in answer(demo_request("Where do I live?", value)).text
        assert "do not remember" in answer(demo_request("Where do I live?")).text

    def test_it_never_calls_a_tool_that_the_agent_has_not_got(self) -> None:
        request = demo_request("My dog is called Rex.")
        reply = answer(ask(*request.messages, tools=[]))
        assert reply.tool_calls == []
        assert reply.text

    def test_two_facts_are_two_calls(self) -> None:
        first = answer(demo_request("I like tea"))
        again = demo_request("I like tea")
        later = ask(*again.messages, message(9, role="user", content="I like tea"))
        assert first.tool_calls[0].id != answer(later).tool_calls[0].id
        assert text_of(again.messages[0])


class Offering:
    """A provider that says what it is told to."""

    def __init__(self, name: str, *models: str, at: str | None = LLM.model_endpoint) -> None:
        self.name = name
        self.at = at
        self.offered = list(models)
        self.away = False
        self.asked = 0
        self.may_answer: asyncio.Event | None = None

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        for text in self.offered:
            yield TextDelta(text)

    async def models(self) -> tuple[list[LLMConfig], list[EmbeddingConfig]]:
        self.asked += 1
        if self.may_answer is not None:
            await self.may_answer.wait()
        if self.away:
            raise ProviderUnreachable("no route")
        configs = [
            LLM.model_copy(
                update={"handle": f"{self.name}/{model}", "model": model, "model_endpoint": self.at}
            )
            for model in self.offered
        ]
        return configs, [EMBEDDING.model_copy(update={"handle": f"{self.name}/embed"})]

    async def close(self) -> None:
        self.away = True


class Published:
    """What was published last; a failure may be asked for."""

    def __init__(self) -> None:
        self.handles: list[Any] | None = None
        self.fails = False
        self.listed: list[str] = []
        self.from_before: list[str] = []
        self.unheard: list[str] = []
        self.meanwhile: Callable[[], None] | None = None  # while something is being published

    async def fetch(self, statement: str, parameters: Any = None) -> list[Any]:
        if self.fails:
            raise ConnectionError("the store is away")
        if statement.startswith("select"):
            return [(name,) for name in self.from_before]
        self.unheard = parameters["unheard"]
        rows = json.loads(parameters["rows"])
        told = [(row["kind"], row["position"], row["handle"]) for row in rows]
        assert [handle for _, _, handle in told[-2:]] == list(bundled_models())
        self.handles = told[:-2]  # those of the providers
        self.listed = [row["handle"] for row in rows if row["kind"] == "llm" and row["listed"]]
        assert all(row["fields"]["handle"] == row["handle"] for row in rows)
        if self.meanwhile is not None:
            self.meanwhile()
            await wait_for_others()
        return []


async def wait_for_others() -> None:
    """Let everybody else do what he can."""
    for _ in range(10):
        await asyncio.sleep(0)


class TestCatalogue:
    def catalogue(self, *providers: Any) -> tuple[ModelRouter, Published, ManualClock]:
        database, clock = Published(), ManualClock()
        return ModelRouter(list(providers), database, clock), database, clock  # type: ignore[arg-type]

    async def test_every_provider_is_asked_and_what_they_offer_is_published(self) -> None:
        catalogue, database, clock = self.catalogue(Offering("a", "x", "y"), Offering("b", "z"))
        await catalogue.turn()
        assert database.handles == [
            ("llm", 0, "a/x"),
            ("llm", 1, "a/y"),
            ("llm", 2, "b/z"),
            ("embedding", 0, "a/embed"),
            ("embedding", 1, "b/embed"),
        ]
        config = await catalogue.llm("b/z")
        assert isinstance(config, LLMConfig)
        assert config.model == "z"
        assert isinstance(await catalogue.embedding("a/embed"), EmbeddingConfig)
        free = await catalogue.embedding("letta/letta-free")
        assert isinstance(free, EmbeddingConfig)
        assert (free.handle, free.embedding_dim) == ("letta/letta-free", 384)
        assert clock.seconds == 60.0

    async def test_who_only_embeds_is_listed_and_answers_for_no_model(self) -> None:
        database = Published()
        embedder: Any = Offering("ollama")
        provider: Any = Offering("a", "x")
        catalogue = ModelRouter([provider], database, ManualClock(), [embedder])  # type: ignore[arg-type]
        await catalogue.turn()
        assert database.handles == [
            ("llm", 0, "a/x"),
            ("embedding", 0, "a/embed"),
            ("embedding", 1, "ollama/embed"),
        ]
        assert isinstance(await catalogue.embedding("ollama/embed"), EmbeddingConfig)
        wanted = LLM.model_copy(update={"handle": "ollama/embed"})
        assert isinstance(await catalogue.provider_of(wanted), Rejected)

    async def test_a_start_ends_when_what_is_new_is_published(self) -> None:
        late = Offering("b", "z")
        late.may_answer = asyncio.Event()
        catalogue, database, _ = self.catalogue(Offering("a", "x"), late)
        database.from_before = ["a"]
        start = asyncio.create_task(catalogue.start())
        for _ in range(9):
            await asyncio.sleep(0)
        assert not start.done()
        late.may_answer.set()
        await start
        assert database.handles == [("llm", 0, "b/z"), ("embedding", 0, "b/embed")]
        assert database.unheard == ["a"], "what is known of it from before stays"
        await catalogue.turn()
        assert database.unheard == []

    async def test_a_start_waits_for_nobody_for_ever(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(model_router, "FIRST_LISTS_SECONDS_MAX", 0.01)
        silent = Offering("a", "x")
        silent.may_answer = asyncio.Event()
        catalogue, database, _ = self.catalogue(silent, Offering("b", "z"))
        await catalogue.start()
        assert database.handles == [("llm", 0, "b/z"), ("embedding", 0, "b/embed")]
        silent.may_answer.set()
        await catalogue.turn()
        assert ("llm", 0, "a/x") in (database.handles or [])

    async def test_a_provider_that_does_not_answer_keeps_no_other_waiting(self) -> None:
        silent = Offering("a", "x")
        silent.may_answer = asyncio.Event()
        catalogue, database, _ = self.catalogue(silent, Offering("b", "z"))
        turn = asyncio.create_task(catalogue.turn())
        for _ in range(9):
            await asyncio.sleep(0)
        assert database.handles == [("llm", 0, "b/z"), ("embedding", 0, "b/embed")]
        silent.may_answer.set()
        await turn

    async def test_a_config_without_a_handle_goes_to_who_offers_its_model(self) -> None:
        catalogue, _, _ = self.catalogue(Offering("a", "x"), Offering("b", "y", "z"))
        config = LLM.model_copy(update={"handle": None, "model": "z"})
        for endpoint in (None, "http://elsewhere/v1"):
            wanted = config.model_copy(update={"model_endpoint": endpoint})
            found = await catalogue.provider_of(wanted)
            assert not isinstance(found, Rejected)
            assert found.name == "b"
            assert await catalogue.refusal(wanted) is None

    async def test_of_several_who_offer_a_model_the_one_at_the_endpoint_is_asked(self) -> None:
        catalogue, _, _ = self.catalogue(Offering("a", "x"), Offering("b", "x", at="http://b/v1"))
        config = LLM.model_copy(update={"handle": None, "model": "x"})
        for endpoint, name in ((LLM.model_endpoint, "a"), ("http://b/v1/", "b"), (None, "a")):
            found = await catalogue.provider_of(
                config.model_copy(update={"model_endpoint": endpoint})
            )
            assert not isinstance(found, Rejected)
            assert found.name == name

    async def test_a_config_that_nobody_can_answer_for_is_refused_with_the_fix(self) -> None:
        provider = Offering("a", "x")
        catalogue, _, clock = self.catalogue(provider)
        for change in (
            {"handle": None, "model": "nope"},
            {"handle": None, "model": "x", "model_endpoint_type": "anthropic"},
            {"handle": "b/x"},
        ):
            refused = await catalogue.refusal(LLM.model_copy(update=change))
            assert isinstance(refused, Rejected)
            assert (refused.code, "`llm_config" in refused.reason) == ("invalid", True)
            assert "`llm_config.handle`" in refused.reason
        provider.away = True
        clock.seconds += 60
        unlisted = LLM.model_copy(update={"handle": None, "model": "new"})
        later = await catalogue.refusal(unlisted)
        assert later is not None
        assert later.code == "unavailable"

    async def test_an_unknown_handle_is_refused_with_those_that_are_known(self) -> None:
        catalogue, _, _ = self.catalogue(Offering("a", "x"))
        for handle in ("a/new", "b/x", "x", ""):
            refused = await catalogue.llm(handle)
            assert isinstance(refused, Rejected)
            assert refused.code == "not_found"
            assert f"Handle {handle} not found, must be one of" in refused.reason
        assert "['a/x']" in refused.reason

    async def test_the_demo_is_listed_where_there_is_nothing_else_and_always_there(self) -> None:
        alone, database, _ = self.catalogue(DemoProvider())
        await alone.turn()
        assert database.listed == [HANDLE]
        provider = Offering("a", "x")
        provider.away = True
        beside, database, _ = self.catalogue(provider, DemoProvider())
        await beside.turn()
        assert database.listed == [], "who is configured may come back"
        provider.away = False
        await beside.turn()
        assert database.listed == ["a/x"]
        assert [handle for kind, _, handle in database.handles or [] if kind == "llm"] == [
            "a/x", HANDLE,
        ]  # fmt: skip
        assert isinstance(await beside.llm(HANDLE), LLMConfig)

    async def test_the_model_of_scripts_is_not_listed_and_always_there(self) -> None:
        catalogue, database, _ = self.catalogue(DemoProvider(), ScriptedProvider())
        await catalogue.turn()
        assert database.listed == [HANDLE], "the demo has no real model beside it"
        assert isinstance(await catalogue.llm(scripted_replies.HANDLE), LLMConfig)

    @pytest.mark.parametrize(
        ("handle", "words"),
        [
            ("anthropic/claude-haiku-4-5", "ANTHROPIC_API_KEY"),
            ("openai/gpt-4o-mini", "OPENAI_API_KEY"),
            ("ollama/llama3", "OPENAI_API_BASE=http://localhost:11434/v1 and"),
            ("ollama/nomic-embed-text", "OLLAMA_BASE_URL"),
            ("vllm/llama3", "name the model openai/llama3"),
            ("lmstudio_openai/qwen", "OPENAI_API_BASE=http://localhost:1234/v1"),
            ("google_ai/gemini-2.5-flash", "OPENAI_API_BASE=https://generativelanguage"),
            ("azure/gpt-4o", "OPENAI_API_BASE=https://<resource>.openai.azure.com"),
            ("bedrock/claude", "OPENAI_API_BASE=https://bedrock-runtime"),
            ("google_vertex/gemini-2.5-flash", "a gateway that speaks OpenAI's"),
        ],
    )
    async def test_a_model_of_a_provider_that_is_not_configured_says_how_that_is_done(
        self, handle: str, words: str
    ) -> None:
        catalogue, _, _ = self.catalogue(Offering("a", "x"))
        for refused in (
            await catalogue.llm(handle),
            await catalogue.embedding(handle),
            await catalogue.refusal(LLM.model_copy(update={"handle": handle})),
        ):
            assert isinstance(refused, Rejected)
            assert words in refused.reason

    async def test_the_models_of_lettas_own_service_are_gone(self) -> None:
        catalogue, _, _ = self.catalogue(Offering("a", "x"))
        refused = await catalogue.llm("letta/letta-free")
        assert isinstance(refused, Rejected)
        assert "are gone with it" in refused.reason

    async def test_a_model_that_is_new_is_found_without_waiting_for_the_next_turn(self) -> None:
        provider = Offering("a", "x")
        catalogue, _, clock = self.catalogue(provider)
        await catalogue.turn()
        provider.offered.append("new")
        clock.seconds += RETRY_SECONDS + 1
        assert isinstance(await catalogue.llm("a/new"), LLMConfig)

    async def test_a_provider_is_not_asked_again_for_every_wrong_handle(self) -> None:
        provider = Offering("a", "x")
        catalogue, _, _ = self.catalogue(provider)
        for _ in range(5):
            assert isinstance(await catalogue.llm("a/wrong"), Rejected)
        assert provider.asked == 1

    async def test_whoever_comes_while_a_provider_is_asked_waits_for_the_answer(self) -> None:
        provider = Offering("a", "x")
        provider.may_answer = asyncio.Event()
        catalogue, _, _ = self.catalogue(provider)
        turn = asyncio.create_task(catalogue.turn())
        await asyncio.sleep(0)
        wanted = [asyncio.create_task(catalogue.llm("a/x")) for _ in range(3)]
        await asyncio.sleep(0)
        assert not any(task.done() for task in wanted)
        provider.may_answer.set()
        assert all(isinstance(config, LLMConfig) for config in await asyncio.gather(*wanted))
        await turn
        assert provider.asked == 1

    async def test_an_unreachable_provider_keeps_what_it_offered_and_is_named(self) -> None:
        provider = Offering("a", "x")
        catalogue, _, clock = self.catalogue(provider)
        await catalogue.turn()
        provider.away = True
        await catalogue.turn()
        assert clock.seconds == 60.0 + RETRY_SECONDS
        assert isinstance(await catalogue.llm("a/x"), LLMConfig)
        refused = await catalogue.llm("a/y")
        assert isinstance(refused, Rejected)
        assert refused.code == "unavailable"
        assert "a/y" in refused.reason

    async def test_models_of_an_endpoint_without_a_list_can_be_named(self) -> None:
        provider = OpenAIProvider("k", "http://model/v1")
        provider.wire = RawWire(
            Refused(404, {}, "no such page"), Refused(400, {}, "no messages"),
            Refused(404, {}, "no such page"), Refused(404, {}, "no such page"),
        )  # fmt: skip
        catalogue, database, clock = self.catalogue(Offering("a", "x"), provider)
        await catalogue.turn()
        await catalogue.turn()
        assert clock.seconds == 120.0, "it is there"
        assert database.handles == [("llm", 0, "a/x"), ("embedding", 0, "a/embed")]
        named = await catalogue.llm("openai/org/my-model")
        assert isinstance(named, LLMConfig)
        assert (named.handle, named.model) == ("openai/org/my-model", "org/my-model")
        found = await catalogue.provider_of(named)
        assert found is provider
        embedding = await catalogue.embedding("openai/my-embedder")
        assert isinstance(embedding, EmbeddingConfig)
        assert embedding.embedding_model == "my-embedder"
        for nothing in ("openai/", "openai/" + "x" * 201):
            assert isinstance(await catalogue.llm(nothing), Rejected)
        nameless = await catalogue.refusal(LLM.model_copy(update={"handle": None, "model": "m"}))
        assert nameless is not None
        assert "openai has no list of its models: name them as `openai/<model>`" in nameless.reason

    @pytest.mark.parametrize(
        "asked", [Refused(404, {}, "no such page"), Refused(405, {}, "GET only")]
    )
    async def test_an_address_that_takes_no_questions_is_no_provider(self, asked: Refused) -> None:
        provider = OpenAIProvider("k", "http://model")
        provider.wire = RawWire(Refused(404, {}, "no such page"), asked)
        catalogue, _, _ = self.catalogue(provider)
        refused = await catalogue.llm("openai/m")
        assert isinstance(refused, Rejected)
        assert refused.code == "unavailable"

    async def test_claude_may_have_no_list_either(self) -> None:
        provider = AnthropicProvider("k", "http://model")
        provider.wire = RawWire(
            Refused(404, {}, ""), Refused(404, {}, '{"error": "model: missing"}')
        )
        catalogue, _, _ = self.catalogue(provider)
        named = await catalogue.llm("anthropic/mine")
        assert isinstance(named, LLMConfig)
        assert named.model == "mine"
        assert isinstance(await catalogue.embedding("anthropic/mine"), Rejected)

    async def test_only_a_change_is_published(self) -> None:
        provider = Offering("a", "x")
        catalogue, database, _ = self.catalogue(provider)
        await catalogue.turn()
        database.handles = None
        await catalogue.turn()
        assert database.handles is None
        provider.offered.append("y")
        await catalogue.turn()
        assert ("llm", 1, "a/y") in (database.handles or [])

    async def test_what_could_not_be_published_is_published_later(self) -> None:
        catalogue, database, _ = self.catalogue(Offering("a", "x"))
        database.fails = True
        with pytest.raises(ConnectionError):
            await catalogue.turn()
        database.fails = False
        await catalogue.turn()
        assert database.handles == [("llm", 0, "a/x"), ("embedding", 0, "a/embed")]

    async def test_who_answers_while_another_is_published_is_published_too(self) -> None:
        first, second = Offering("a", "x"), Offering("b", "y")
        second.may_answer = asyncio.Event()
        catalogue, database, _ = self.catalogue(first, second)
        database.meanwhile = second.may_answer.set
        await catalogue.turn()
        assert ("llm", 1, "b/y") in (database.handles or [])

    async def test_a_model_whose_provider_is_not_configured_fails_the_run(self) -> None:
        catalogue, _, _ = self.catalogue(Offering("a", "x"))
        with pytest.raises(ModelFailed, match="No provider is configured") as raised:
            await catalogue.reply(ask(SYSTEM))
        assert "openai/gpt-4o-mini" in raised.value.failure.message

    async def test_a_stream_that_ends_without_an_answer_fails_the_run(self) -> None:
        catalogue, _, _ = self.catalogue(Offering("openai", "x"))
        with pytest.raises(ModelFailed) as raised:
            await catalogue.reply(ask(SYSTEM))
        assert raised.value.failure.error_type == "llm_empty_response"
        assert raised.value.failure.stop_reason == "invalid_llm_response"

    async def test_the_answer_is_the_providers(self) -> None:
        catalogue, _, _ = self.catalogue(DemoProvider())
        request = demo_request("Who are you?")
        config = request.config.llm_config.model_copy(update={"handle": HANDLE})
        request = ask(*request.messages, handle=HANDLE)
        assert request.config.llm_config.handle == config.handle
        assert (await catalogue.reply(request)).text == WHAT_I_AM
        await catalogue.close()
