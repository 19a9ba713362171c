"""A context that is too long is recognised in the words of every server, with its window."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.agent.adapters.models.openai_provider import OpenAIProvider
from services.agent.adapters.models.ports import ModelFailed
from services.agent.adapters.models.provider_error_words import failure_of
from services.agent.adapters.models.transport import Refused
from tests.clock_and_ids import ManualClock
from tests.unit.agent.asking import RawWire, reply_to, script

TOO_LONG = "context_window_exceeded"
VLLM = (
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens "
    "(4800 in the messages, 200 in the completion). Please reduce the length of the messages."
)
# What servers say, with the number of tokens that they name.
WORDS: list[tuple[str, int | None]] = [
    (VLLM, 4096),
    ("This model's maximum context length is 4,096 tokens.", 4096),
    ("The decoder prompt (length 5000) is longer than the maximum model length of 4096.", 4096),
    ("The input (5000 tokens) is longer than the model's context length (4096 tokens).", 4096),
    ("Requested token count exceeds the model's maximum context length of 4096 tokens.", 4096),
    ("the request exceeds the available context size. try increasing the context size", None),
    ("request (5000 tokens) exceeds the available context size (4096 tokens)", 4096),
    ("Context size has been exceeded.", None),
    (
        "Trying to keep the first 5000 tokens when context the overflows. However, the model is "
        "loaded with context length of only 4096 tokens, which is not enough.",
        4096,
    ),
    ("The number of tokens to keep from the prompt is greater than the context length.", None),
    ("the input length exceeds the context length", None),
    ("prompt too long; exceeded max context length by 5 tokens", None),
    (
        "This endpoint's maximum context length is 32768 tokens. However, you requested about "
        "40000 tokens (38000 of text input, 2000 in the output).",
        32768,
    ),
    ("Prompt contains 40000 tokens, too large for model with 32768 maximum context length", 32768),
    ("The prompt is too long: 5000, model maximum context length: 4096", 4096),
    ("Please reduce the length of the messages or completion.", None),
    ("This model's maximum prompt length is 131072 but the request contains 537812.", 131072),
    ("The input token count (9000) exceeds the maximum number of tokens allowed (4096).", 4096),
    ("Input is too long for requested model.", None),
    ("prompt is too long: 210000 tokens > 200000 maximum", 200000),
    ("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000", 200000),
    ("Input validation error: `inputs` must have less than 4095 tokens. Given: 5000", 4095),
    (
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. "
        "Given: 4500 `inputs` tokens and 500 `max_new_tokens`",
        4096,
    ),
    ("too many tokens: total number of tokens in the prompt cannot exceed 4081", 4081),
    ("context window exceeds limit (2013)", None),
    ("Your request exceeded model token limit: 262144 (requested: 300000)", 262144),
    ("Input tokens exceed the configured limit of 272000 tokens.", 272000),
    ("Your input exceeds the context window of this model.", None),
    ("Prompt exceeds max length", None),
    ("Range of input length should be [1, 30720]", 30720),
    ("prompt token count of 150000 exceeds the limit of 128000", 128000),
    ("Prompt length (5000) exceeds maximum input length (4096)", 4096),
    ("Prompt length 5000 is greater than max_seq_len 4096", 4096),
    ("requested 5000 tokens but the context window is 4k", 4096),
]
OTHER_WORDS = [
    "temperature must be at most 2",
    "Invalid 'tools': array too long. Expected an array with maximum length 128",
    "Invalid 'messages[0].name': string too long. Expected a string with maximum length 64",
    "`messages` must not be empty",
    "The image is too large",
    "The tool name is too long",
    "max_tokens: 20000 > 8192, which is the maximum allowed number of output tokens",
    "You exceeded your current quota",
    "Invalid schema for function 'foo': 'maximum context length is 300' is not one of ['a']",
    'Invalid value: "prompt is too long: 5000 tokens > 4096 maximum". Supported values are: "a"',
    "input exceeds the maximum size: image 9000 > 8000 pixels",
    "The input exceeds the limit: 33MB > 32MB",
    "KV cache context size allocation failed, 512 of 2048 blocks",
]
SHAPES: dict[str, Any] = {
    "object": lambda words: {"error": {"message": words, "type": "BadRequestError", "code": 400}},
    "top": lambda words: {"object": "error", "message": words, "type": "x", "param": None},
    "text": lambda words: {"error": words},
    "detail": lambda words: {"detail": words},
    "list": lambda words: [{"error": {"code": 400, "message": words, "status": "X"}}],
    "raw": lambda words: {
        "error": {
            "message": "Provider returned error",
            "code": 400,
            "metadata": {"raw": json.dumps({"error": {"message": words}})},
        }
    },
}


@pytest.mark.parametrize(("words", "window"), WORDS)
def test_it_is_recognised_whoever_words_it(words: str, window: int | None) -> None:
    for shape in SHAPES.values():
        for status in (400, 413, 422, 500):
            failure = failure_of("openai", status, shape(words), "")
            named = window if status < 500 else None
            assert (failure.error_type, failure.window) == (TOO_LONG, named)
    assert words.partition(".")[0] in failure.message


@pytest.mark.parametrize("words", OTHER_WORDS)
def test_other_limits_are_something_else(words: str) -> None:
    for shape in SHAPES.values():
        failure = failure_of("openai", 400, shape(words), "")
        assert (failure.error_type, failure.window) == ("llm_bad_request", None)


@pytest.mark.parametrize("status", [401, 402, 403, 429])
def test_other_statuses_say_something_else(status: int) -> None:
    assert failure_of("openai", status, SHAPES["object"](VLLM), "").error_type != TOO_LONG


def test_a_server_may_name_it_beside_the_words() -> None:
    error = {
        "code": 400,
        "message": "too big",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 5000,
        "n_ctx": 4096,
    }
    failure = failure_of("openai", 400, {"error": error}, "")
    assert (failure.error_type, failure.window) == (TOO_LONG, 4096)
    coded = {"error": {"message": "No.", "code": "context_length_exceeded"}}
    assert failure_of("openai", 400, coded, "").error_type == TOO_LONG


async def test_a_window_that_was_named_is_known_and_offered_from_then_on() -> None:
    provider = OpenAIProvider("k", "http://model/v1")
    body = json.dumps(SHAPES["object"](VLLM))
    listed = json.dumps({"data": [{"id": "gpt-4o-mini"}, {"id": "a", "max_model_len": 8192}]})
    provider.wire = RawWire(Refused(400, {}, body), listed.encode())
    with pytest.raises(ModelFailed):
        await reply_to(provider, script("Hello " * 3_000))
    assert provider.window_tokens("gpt-4o-mini") == 4096
    assert provider.window_tokens("another") is None
    llms, _ = await provider.models()
    windows = {str(llm.handle): llm.context_window for llm in llms}
    assert windows == {"openai/gpt-4o-mini": 4096, "openai/a": 8192}
    assert {llm.max_tokens for llm in llms} == {2048, 4096}
    usual = json.loads(await provider.payload(script("Hi")))
    assert "max_completion_tokens" not in usual, "it wanted 16,384"
    short = json.loads(await provider.payload(script("Hi", max_tokens=500)))
    assert short["max_completion_tokens"] == 500


def test_an_error_may_be_a_value_in_the_words_of_another() -> None:
    inner = json.dumps({"error": {"message": VLLM, "type": "BadRequestError"}})
    for words in (
        f"litellm.BadRequestError: OpenAIException - {inner}",
        f"Error code: 400 - {json.loads(inner)}",
    ):
        failure = failure_of("openai", 400, {"error": {"message": words}}, "")
        assert (failure.error_type, failure.window) == (TOO_LONG, 4096)


@pytest.mark.parametrize(
    ("status", "words", "question"),
    [
        pytest.param(400, VLLM, "Hi", id="the question would have fitted"),
        pytest.param(400, VLLM.replace("4096", "300"), "Hello " * 3_000, id="so few"),
        pytest.param(413, "input exceeds: image 9000 > 8000 pixels", "Hello " * 9_000, id="pixels"),
        pytest.param(500, VLLM, "Hello " * 3_000, id="the server is broken"),
        pytest.param(500, "KV cache context size allocation failed, 512 of 2048 blocks",
                     "Hello " * 3_000, id="its memory"),
    ],
)  # fmt: skip
async def test_a_window_is_not_learned_from(status: int, words: str, question: str) -> None:
    provider = OpenAIProvider("k", "http://model/v1", clock=ManualClock())
    refused = Refused(status, {"x-should-retry": "false"}, json.dumps({"error": words}))
    provider.wire = RawWire(refused)
    with pytest.raises(ModelFailed):
        await reply_to(provider, script(question, max_tokens=None))
    assert provider.window_tokens("gpt-4o-mini") is None


async def test_a_window_that_was_named_is_forgotten_after_an_hour() -> None:
    clock = ManualClock()
    provider = OpenAIProvider("k", "http://model/v1", clock=clock)
    provider.wire = RawWire(Refused(400, {}, json.dumps({"error": VLLM})))
    with pytest.raises(ModelFailed):
        await reply_to(provider, script("Hello " * 3_000))
    clock.seconds += 3_599
    assert provider.window_tokens("gpt-4o-mini") == 4096
    clock.seconds += 1
    assert provider.window_tokens("gpt-4o-mini") is None


async def test_a_list_of_models_may_stand_alone() -> None:
    provider = OpenAIProvider("k", "http://model/v1")
    provider.wire = RawWire(b'[{"id": "b", "context_length": 8192}, {"id": "a"}, 7]')
    llms, _ = await provider.models()
    assert [(llm.handle, llm.context_window, llm.max_tokens) for llm in llms] == [
        ("openai/a", 30_000, 16_384), ("openai/b", 8_192, 4_096),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [
        "This model's maximum context length is 4096 tokens. However, you requested 17384 tokens "
        "(1000 in the messages, 16384 in the completion).",
        "'max_tokens' or 'max_completion_tokens' is too large: 16384. This model's maximum context "
        "length is 4096 tokens and your request has 2000 input tokens.",
    ],
)
async def test_too_much_room_for_the_answer_is_not_the_conversations_fault(words: str) -> None:
    provider = OpenAIProvider("k", "http://model/v1")
    answer = json.dumps({"choices": [{"message": {"content": "Hi"}}]}).encode()
    provider.wire = wire = RawWire(Refused(400, {}, json.dumps({"error": words})), answer, answer)
    assert (await reply_to(provider, script("Hi"))).text == "Hi"
    await reply_to(provider, script("Hi"))
    assert [asked.get("max_completion_tokens") for asked in wire.asked] == [16_384, None, None]
