"""The scripted model fails, refuses and counts as its scripts and its admin say."""

import asyncio
import json
from typing import Any

import openai
import pytest

from tests.scripted_model import ScriptedModelProcess
from tests.unit.scripted_model.asking import (
    DEFAULT,
    ask,
    joined,
    results,
    say,
    streamed,
    tool,
    user,
)


class TestFailures:
    @pytest.mark.parametrize(
        ("code", "error", "body"),
        [
            ("400", openai.BadRequestError, {"type": "invalid_request_error"}),
            ("401", openai.AuthenticationError, {"code": "invalid_api_key"}),
            ("404", openai.NotFoundError, {"code": "model_not_found"}),
            ("422", openai.UnprocessableEntityError, {"type": "invalid_request_error"}),
            ("429", openai.RateLimitError, {"code": "rate_limit_exceeded"}),
            ("500", openai.InternalServerError, {"type": "server_error"}),
            ("599", openai.InternalServerError, {"type": "server_error"}),
            ("insufficient_quota", openai.RateLimitError, {"code": "insufficient_quota"}),
            (
                "context_length_exceeded",
                openai.BadRequestError,
                {"code": "context_length_exceeded"},
            ),
        ],
    )
    @pytest.mark.parametrize("stream", [False, True])
    async def test_fail_answers_with_openai_error_bodies(self, client, code, error, body, stream):
        with pytest.raises(error) as raised:
            await ask(client, f"FAIL:{code}", stream=stream)
        assert raised.value.body.items() >= body.items()

    async def test_the_sdk_retries_a_counted_failure_until_it_succeeds(self, client, model):
        text = "FAIL:429:2 SAY:at last"
        assert await say(client.with_options(max_retries=2), text) == "at last"
        assert await model.asked(text) == {0: 3}
        assert await model.answered(text) == {0: 1}

    async def test_a_failure_behind_a_call_strikes_the_step_after_it(self, client):
        messages = user("CALL:roll FAIL:500:1 SAY:done")
        message = (await ask(client, messages, tools=[tool()])).choices[0].message
        messages += results(message)
        with pytest.raises(openai.InternalServerError):
            await ask(client, messages, tools=[tool()])
        assert await say(client, messages, tools=[tool()]) == "done"

    async def test_slow_delays_and_combines_with_a_call(self, client):
        loop = asyncio.get_running_loop()
        start = loop.time()
        reply = await ask(client, "SLOW:80 CALL:roll", tools=[tool()])
        assert loop.time() - start >= 0.08
        assert reply.choices[0].message.tool_calls[0].function.name == "roll"

    async def test_hang_never_answers(self, client, model):
        asking = asyncio.create_task(ask(client, "HANG"))
        await model.wait_for_asked("HANG")
        with pytest.raises(openai.APITimeoutError):
            await ask(client.with_options(timeout=0.2), "HANG")
        assert not asking.done()
        asking.cancel()
        assert await model.asked("HANG") == {0: 2}
        assert await model.answered("HANG") == {}

    async def test_cut_breaks_a_plain_answer_and_heals_when_counted(self, client):
        with pytest.raises(openai.APIConnectionError):
            await ask(client, "CUT:1 SAY:whole")
        assert await say(client, "CUT:1 SAY:whole") == "whole"

    async def test_cut_breaks_a_stream_after_some_deltas(self, client, model):
        text = "CUT SAY:this text is long enough to be sent in several pieces"
        read: list[Any] = []

        async def read_all() -> None:
            async for chunk in await ask(client, text, stream=True):
                read.append(chunk)  # noqa: PERF401 (what came before the cut must stay)

        with pytest.raises(openai.APIConnectionError):
            await read_all()
        assert joined(read)
        assert text.removeprefix("CUT SAY:").startswith(joined(read))
        assert await model.answered(text) == {}

    @pytest.mark.parametrize("stream", [False, True])
    async def test_garbage_is_status_200_with_invalid_json(self, client, stream):
        with pytest.raises((json.JSONDecodeError, openai.APIResponseValidationError)):
            await (streamed(client, "GARBAGE") if stream else ask(client, "GARBAGE"))


CALL = {"id": "call_1", "type": "function", "function": {"name": "roll", "arguments": "{}"}}
CALL_2 = CALL | {"id": "call_2"}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "6"}


def calling(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


class TestValidator:
    @pytest.mark.parametrize(
        ("messages", "reason"),
        [
            ([], "empty array"),
            ([{"role": "robot", "content": "Hi"}], "Invalid value: 'robot'"),
            ([{"role": "user"}], "expected a string, got null"),
            ([{"role": "assistant", "content": None}], "expected a string, got null"),
            ([{"role": "assistant", "content": ""}], "got an empty one"),
            ([{"role": "user", "content": []}], "empty array"),
            (
                [{"role": "system", "content": [{"type": "image_url"}]}],
                "Invalid value: 'image_url'",
            ),
            ([{"role": "user", "content": "Hi"}] * 2_049, "maximum length 2048"),
            ([*user("Hi"), RESULT], "must be a response to a preceeding message"),
            ([*user("Hi"), calling(CALL)], "did not have response messages: call_1"),
            ([*user("Hi"), calling(CALL), *user("?"), RESULT], "call_1"),
            ([*user("Hi"), calling(CALL, CALL_2), RESULT], "messages: call_2"),
            ([*user("Hi"), calling(CALL), RESULT, RESULT], "must be a response to"),
            ([*user("Hi"), calling(CALL_2), RESULT], "'call_1' not found"),
            ([*user("Hi"), calling(CALL, CALL), RESULT], "Duplicate value"),
            ([*user("Hi"), calling()], "empty array"),
            ([*user("Hi"), calling(CALL | {"id": "c" * 41})], "maximum length 40"),
            ([{"role": "user", "name": "two words", "content": "Hi"}], "does not match pattern"),
        ],
    )
    async def test_broken_messages_are_refused_counted_and_kept(
        self, client, model, messages, reason
    ):
        with pytest.raises(openai.BadRequestError, match=reason) as raised:
            await ask(client, messages)
        assert raised.value.type == "invalid_request_error"
        stats = await model.stats()
        assert stats["validation_errors"] == 1
        assert stats["refusals"][0]["messages"] == messages
        assert reason in stats["refusals"][0]["reason"]
        assert stats["by_text"] == {}

    @pytest.mark.parametrize(
        ("options", "reason"),
        [
            ({"tools": []}, "empty array"),
            ({"tools": [tool("two words")]}, "does not match pattern"),
            ({"tools": [tool(type="string")]}, "'type: \"object\"', got 'type: \"string\"'"),
            ({"tools": [tool(properties={"a": {"type": "array"}})]}, "missing items"),
            ({"tools": [tool(properties={"a": {"type": "text"}})]}, "'text' is not valid"),
            ({"tools": [tool(required="a")]}, "not of type 'array'"),
            ({"tools": [{"type": "magic"}]}, "Invalid value: 'magic'"),
            ({"tool_choice": "auto"}, "only allowed when 'tools' are specified"),
            ({"stream_options": {"include_usage": True}}, "only allowed when 'stream'"),
        ],
    )
    async def test_broken_tools_and_options_are_refused(self, client, model, options, reason):
        with pytest.raises(openai.BadRequestError, match=reason):
            await ask(client, "Hi", **options)
        assert (await model.stats())["validation_errors"] == 1

    async def test_a_sound_history_passes(self, client, model):
        history = [*user("Hi"), calling(CALL, CALL_2), RESULT | {"tool_call_id": "call_2"}, RESULT]
        assert await say(client, history, tools=[tool()]) == DEFAULT
        assert (await model.stats())["validation_errors"] == 0


class TestAdmin:
    async def test_stats_count_each_step_and_reset_forgets(self, client, model):
        messages = user("CALL:roll count me")
        message = (await ask(client, messages, tools=[tool()])).choices[0].message
        messages += results(message)
        await ask(client, messages, tools=[tool()])
        assert joined(await streamed(client, "Hi")) == DEFAULT
        stats = await model.stats()
        assert stats["by_text"] == {"CALL:roll count me": {"0": 1, "1": 1}, "Hi": {"0": 1}}
        assert stats["answered_by_text"] == stats["by_text"]
        assert stats["counts"] == {"chat": 3, "chat_stream": 1, "tool_calls": 1}
        assert stats["texts_dropped"] == 0
        await model.reset()
        assert (await model.stats())["by_text"] == {}
        assert await model.requests() == []

    async def test_requests_keep_the_last_bodies(self, client, model):
        for text in ("one", "two", "three"):
            await ask(client, text)
        last = await model.requests(last=2)
        assert [body["messages"] for body in last] == [user("two"), user("three")]
        assert len(await model.requests()) == 3

    async def test_fail_strikes_the_next_requests_of_its_kind(self, client, model):
        await model.fail(503, count=2)
        for _ in range(2):
            with pytest.raises(openai.InternalServerError):
                await ask(client, "Hi")
        assert await say(client, "Hi") == DEFAULT
        await model.fail(429, kind="embeddings")
        with pytest.raises(openai.RateLimitError):
            await client.embeddings.create(model="text-embedding-3-small", input="fox")

    async def test_a_delay_holds_for_all_until_it_is_taken_back(self, client, model):
        loop = asyncio.get_running_loop()
        await model.delay(80)
        start = loop.time()
        await ask(client, "Hi")
        assert loop.time() - start >= 0.08
        await model.delay(0)
        start = loop.time()
        await ask(client, "Hi")
        assert loop.time() - start < 0.08

    async def test_an_admin_request_that_makes_no_sense_is_refused(self, model):
        with pytest.raises(RuntimeError, match="400 to 599"):
            await model.fail(200)


def written(text: str) -> bytes:
    body = json.dumps({"model": "m", "messages": user(text)}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def test_one_connection_is_answered_in_order(model):
    port = int(model.origin.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    both = written("SLOW:50 SAY:first") + written("SAY:second")
    writer.write(both[:40])
    await writer.drain()
    writer.write(both[40:])
    for text in ("first", "second"):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.partition(b"content-length: ")[2].split(b"\r")[0])
        body = json.loads(await reader.readexactly(length))
        assert body["choices"][0]["message"]["content"] == text
    writer.close()
    await writer.wait_closed()


async def test_a_process_of_its_own_answers_and_ends(client):
    async with ScriptedModelProcess() as model:
        there = client.with_options(base_url=model.base_url)
        assert await say(there, "SAY:from afar") == "from afar"
        assert await model.asked("SAY:from afar") == {0: 1}
        origin = model.origin
    with pytest.raises(openai.APIConnectionError):
        await say(client.with_options(base_url=f"{origin}/v1"), "Hi")
