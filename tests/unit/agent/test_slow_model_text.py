"""R41 in the agent service: whatever a client, a model or a file says at its greatest length, it
takes no more than half a second of processor where the event loop is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from libs.contracts.agent.scripted_replies import METADATA_KEY
from libs.work.limited_processes import LimitedProcesses, LimitReached
from services.agent.adapters import file_regex_search
from services.agent.adapters.file_regex_search import FileSearch, matches_of
from services.agent.adapters.models import tool_schemas
from services.agent.adapters.models.answer_sanitization import (
    ArgumentChunks,
    ThinkingTags,
    storable_arguments,
)
from services.agent.adapters.models.anthropic_answer import AnthropicAnswer
from services.agent.adapters.models.demo_model import DemoProvider, known_blocks
from services.agent.adapters.models.openai_answer import OpenAIAnswer
from services.agent.adapters.models.provider_error_words import error_words
from services.agent.adapters.models.scripted_model import ScriptedProvider
from services.agent.domain.runs.streaming_argument_parser import (
    ArgumentNames,
    StreamingArgumentParser,
)
from services.agent.domain.tools.block_patches import block_patches
from tests.processor_bounds import processor_time
from tests.unit.agent.asking import reply_to
from tests.unit.agent.test_models import demo_request
from tests.unit.agent.test_scripted_replies import asked, user

CHUNKS = 4_000  # of an answer; each costs about 30 microseconds
ARGUMENTS = 600_000  # characters of one call
FILLINGS = ["{", "[", "}", '"', "\\", '\\"', "{}", '{"a":', "\\u0000", "\\ud800", " ", "a", ","]


@pytest.mark.parametrize("filling", ['"\n', "\n", '\\\n"', '"\\'])
def test_control_characters_of_arguments_are_escaped_in_time(filling: str) -> None:
    chunks = ArgumentChunks()
    with processor_time():
        chunks.add(filling * (ARGUMENTS // len(filling)))
        chunks.rest()


@pytest.mark.parametrize("filling", ["<", " ", "</", "<think>", "</think "])
def test_thoughts_between_tags_are_read_in_time(filling: str) -> None:
    tags = ThinkingTags()
    with processor_time():
        tags.read("<think>")
        tags.read(filling * (1_000_000 // len(filling)))
        for _ in range(CHUNKS):
            tags.read(filling)
        tags.rest()


async def test_a_system_prompt_of_beginnings_of_blocks_is_read_once() -> None:
    request = demo_request("Who are you?")
    system = request.messages[0]
    long = system.model_copy(update={"content": "<a>\n<description><value>\n" * 20_000})
    with processor_time():
        assert known_blocks(long) == {}
        await reply_to(DemoProvider(), replace(request, messages=[long, *request.messages[1:]]))


async def test_many_replies_are_looked_for_in_a_long_message_beside_the_event_loop() -> None:
    replies: list[dict[str, Any]] = [
        {"match": "a" * (5 + n % 100) + "b" + "a" * (5 + n // 100)} for n in range(900)
    ]
    request = asked([*replies, {"text": "Hello"}], user("a" * 200_000))
    assert request.config.metadata
    assert len(request.config.metadata[METADATA_KEY]) == 901
    with processor_time():
        assert (await reply_to(ScriptedProvider(), request)).text == "Hello"


@pytest.mark.parametrize("unit", ["my a ", "are you "])
async def test_a_long_message_to_the_demo_is_read_beside_the_event_loop(unit: str) -> None:
    request = demo_request((unit * 500_000)[:500_000])
    with processor_time():
        await reply_to(DemoProvider(), request)


def openai(number: int, arguments: str, name: str = "", index: int = 0) -> dict[str, Any]:
    """A chunk of a call in OpenAI's form; the first has the name of the tool."""
    function = {"name": name or ("f" if number == 0 else ""), "arguments": arguments}
    call = {"index": index, "id": "call-1" if index == 0 else "call-2", "function": function}
    return {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}


def anthropic(number: int, arguments: str) -> dict[str, Any]:
    """A chunk of a call in Anthropic's form; the first opens its block."""
    if number == 0:
        block = {"type": "tool_use", "id": "call-1", "name": "f"}
        return {"type": "content_block_start", "index": 0, "content_block": block}
    delta = {"type": "input_json_delta", "partial_json": arguments}
    return {"type": "content_block_delta", "index": 0, "delta": delta}


def read(answer: OpenAIAnswer | AnthropicAnswer, events: Iterable[dict[str, Any]]) -> None:
    """Read an answer to its end."""
    for event in [json.dumps(event) for event in events]:
        answer.read(event)
    answer.end()


@pytest.mark.parametrize("filling", FILLINGS)
def test_an_answer_in_tiny_chunks_takes_as_long_as_it_has_chunks(filling: str) -> None:
    with processor_time(1.0):
        read(OpenAIAnswer("s"), (openai(n, filling) for n in range(CHUNKS)))
    with processor_time(1.0):
        read(AnthropicAnswer("s"), (anthropic(n, filling) for n in range(CHUNKS)))


@pytest.mark.parametrize(
    "events",
    [
        lambda: (openai(n, '{"a":"' if n == 0 else "a" * 100, name="f") for n in range(CHUNKS)),
        lambda: (openai(n, '{"a":"' if n == 0 else "a" * 100, name=f"f{n}") for n in range(CHUNKS)),
        lambda: (openai(n, "", name="name" * 100) for n in range(CHUNKS)),
        lambda: (openai(n, "{}" * 50, name="f") for n in range(CHUNKS)),
        lambda: (
            openai(n, "a" * 100 if n > 2 else '{"a":"', name="f" if n < 2 else "", index=n == 1)
            for n in range(CHUNKS)
        ),
    ],
    ids=["name-repeated", "names-new", "name-grows", "whole-again-and-again", "two-at-once"],
)
def test_calls_are_told_apart_without_reading_them_again(
    events: Callable[[], Iterator[dict[str, Any]]],
) -> None:
    with processor_time(1.0):
        read(OpenAIAnswer("s"), events())


@pytest.mark.parametrize("filling", FILLINGS)
def test_arguments_of_the_greatest_length_are_read_once(filling: str) -> None:
    text = (filling * ARGUMENTS)[:ARGUMENTS]
    for arguments in (text, f'{{"a":{text}', f'{{"thoughts":"{text}'):
        with processor_time(1.0):  # for two readers
            StreamingArgumentParser(ArgumentNames("thoughts", "words")).read(arguments)
            storable_arguments(arguments)


@pytest.mark.parametrize(
    "filling",
    ["1", "1,", "max_", "exceed", "prompt (", '"\\', '\\"', "'", "': '", "[1, ", "(1", ">"],
)
def test_an_error_of_a_provider_is_understood_soon(filling: str) -> None:
    message = "n_ctx context window exceeded " + filling * 2_000_000
    with processor_time():
        for form in (
            message,
            {"message": message, "code": message},
            [message],
            {"detail": message},
        ):
            error = error_words({"error": form})
            error.refused_parameters({"temperature", "max_tokens"})
            assert error.blames_room_for_answer in (True, False)


def tree_of_references(depth: int) -> dict[str, Any]:
    """A schema in which each part names the next one twice."""
    parts = {
        f"p{n}": {"anyOf": [{"$ref": f"#/$defs/p{n + 1}"}, {"$ref": f"#/$defs/p{n + 1}"}]}
        for n in range(depth)
    }
    return {"$defs": parts, "$ref": "#/$defs/p0"}


LOOP = {"anyOf": [{"$ref": "#"}, {"$ref": "#"}, {"$ref": "#"}]}
MANY = {"anyOf": [{"properties": {"a": {"const": n}}} for n in range(3_000)]}


def doubled(levels: int) -> Any:
    """A schema whose one argument has twice as many alternatives at each level."""
    parts: dict[str, Any] = {
        f"{name}{level}": {
            "anyOf": [
                {"$ref": f"#/$defs/{name}{level + 1}"},
                {"$ref": f"#/$defs/{other}{level + 1}"},
            ]
        }
        for level in range(levels)
        for name, other in ("ab", "ba")
    }
    for name in "ab":
        parts[f"{name}{levels}"] = {"properties": {"p": {"const": name}}}
    return {"$ref": "#/$defs/a0", "$defs": parts}


@pytest.mark.parametrize(
    "schema", [LOOP, tree_of_references(60), tree_of_references(900), MANY, doubled(50)]
)
def test_a_schema_that_names_its_parts_again_and_again_is_read_once(schema: Any) -> None:
    with processor_time():
        assert tool_schemas.arguments(schema)["type"] == "object"
        assert tool_schemas.anthropic_arguments(schema)["type"] == "object"


@pytest.mark.parametrize("unit", ["@@\n", "-a\n", "+\n", "*** Move to: \n", "\\\n", " \n", "\n"])
def test_a_patch_of_the_greatest_length_is_read_soon(unit: str) -> None:
    with processor_time():
        block_patches("human", unit * (ARGUMENTS // len(unit)))


async def test_an_expression_that_is_slow_on_a_file_ends_in_its_own_process() -> None:
    text = ("ab" * 40 + "\n") * 2_000
    slow = FileSearch("(a|b)*a(a|b){500}c(a|b)*")
    processes = LimitedProcesses(file_regex_search.__name__)
    with processor_time():
        try:
            found = await processes.run(
                matches_of, "f", text, 1, slow, 10, org="o", limits=file_regex_search.SEARCH_LIMITS
            )
        except LimitReached:
            found = []
    assert found == []
    processes.close()
