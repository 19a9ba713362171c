"""The scripted model on Anthropic's wire, asked through Anthropic's SDK."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anthropic
import pytest

from tests.scripted_model import ScriptedModel
from tests.scripted_model.messages_validator import check
from tests.scripted_model.messages_wire import signature

MODEL = "claude-sonnet-4-5-20250929"
ROLL = {"name": "roll", "description": "", "input_schema": {"type": "object", "properties": {}}}
TOOLS = {"tools": [ROLL]}
THINKING = {"type": "enabled", "budget_tokens": 1024}


@pytest.fixture
async def claude(model: ScriptedModel) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(
        base_url=model.anthropic_base_url, api_key="sk-test", max_retries=0
    ) as client:
        yield client


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def result(call_id: str, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "6", **fields}


async def ask(client: anthropic.AsyncAnthropic, *messages: Any, **options: Any) -> Any:
    return await client.messages.create(
        model=MODEL, max_tokens=4096, messages=list(messages), **options
    )


async def streamed(client: anthropic.AsyncAnthropic, text: str, **options: Any) -> Any:
    """The events of a stream, and the message that the SDK makes of them."""
    async with client.messages.stream(
        model=MODEL, max_tokens=4096, messages=[user(text)], **options
    ) as stream:
        events = [event async for event in stream]
        return events, await stream.get_final_message()


class TestWhole:
    async def test_text_comes_with_its_usage(self, claude, model):
        reply = await ask(claude, user("SAY:Hello"), system="Be kind.")
        assert reply.content[0].text == "Hello"
        assert (reply.stop_reason, reply.model) == ("end_turn", MODEL)
        assert reply.usage.input_tokens > 0
        assert await model.answered("SAY:Hello") == {0: 1}

    async def test_a_call_goes_on_after_its_result(self, claude, model):
        script = user('CALL:roll:{"why": "luck"} SAY:done')
        reply = await ask(claude, script, tools=[ROLL])
        [call] = reply.content
        assert (call.name, call.input, reply.stop_reason) == ("roll", {"why": "luck"}, "tool_use")
        said = {"role": "assistant", "content": [call.model_dump(exclude_none=True)]}
        reply = await ask(claude, script, said, user([result(call.id)]), tools=[ROLL])
        assert reply.content[0].text == "done"
        assert (await model.stats())["counts"] == {"messages": 2, "tool_calls": 1}

    async def test_the_last_words_of_the_user_are_the_script(self, claude):
        both = [{"type": "text", "text": "SAY:one"}, {"type": "text", "text": "SAY:two"}]
        assert (await ask(claude, user(both))).content[0].text == "two"

    async def test_it_thinks_only_if_it_is_asked_to(self, claude):
        script = user('THINK:"Well." REDACTED SAY:Hi')
        reply = await ask(claude, script, thinking=THINKING)
        assert [block.type for block in reply.content] == ["thinking", "redacted_thinking", "text"]
        assert reply.content[0].thinking == "Well."
        assert [block.type for block in (await ask(claude, script)).content] == ["text"]

    async def test_the_choice_of_a_tool_is_obeyed(self, claude):
        forced = await ask(claude, user("Hi"), tools=[ROLL], tool_choice={"type": "any"})
        assert forced.content[0].name == "roll"
        none = await ask(claude, user("CALL:roll"), tools=[ROLL], tool_choice={"type": "none"})
        assert none.content[0].type == "text"

    async def test_models_are_listed(self, claude):
        assert MODEL in [model.id async for model in claude.models.list()]


class TestStreams:
    async def test_text_comes_in_pieces_of_eight_characters(self, claude):
        events, message = await streamed(claude, "Hi")
        pieces = [event.text for event in events if event.type == "text"]
        assert pieces == ["Hello fr", "om the s", "cripted ", "model."]
        assert message.content[0].text == "".join(pieces)
        assert message.usage.output_tokens > 1

    async def test_arguments_come_in_pieces_after_the_name(self, claude):
        events, message = await streamed(
            claude, 'THINK:"Roll it." CALL:roll:{"why": "a long reason"}', tools=[ROLL],
            thinking=THINKING,
        )  # fmt: skip
        pieces = [event.partial_json for event in events if event.type == "input_json"]
        assert pieces == ['{"why": "a long ', 'reason"}']
        thought, call = message.content
        assert (thought.thinking, thought.signature) == ("Roll it.", signature("Roll it."))
        assert (call.name, call.input) == ("roll", {"why": "a long reason"})

    async def test_a_client_that_leaves_counts_as_abandoned(self, claude, model):
        async with claude.messages.stream(
            model=MODEL, max_tokens=9, messages=[user("DRIP:60000 leave")]
        ) as stream:
            await anext(aiter(stream))
        await model.wait_for_count("abandoned")


class TestFailures:
    @pytest.mark.parametrize(
        ("code", "status", "kind"),
        [
            ("400", 400, "invalid_request_error"),
            ("401", 401, "authentication_error"),
            ("429", 429, "rate_limit_error"),
            ("500", 500, "api_error"),
            ("529", 529, "overloaded_error"),
            ("context_length_exceeded", 400, "invalid_request_error"),
            ("insufficient_quota", 400, "invalid_request_error"),
        ],
    )
    async def test_they_have_anthropics_bodies(self, claude, code, status, kind):
        with pytest.raises(anthropic.APIStatusError) as raised:
            await ask(claude, user(f"FAIL:{code}"))
        assert raised.value.status_code == status
        assert raised.value.body["error"]["type"] == kind

    async def test_cut_and_counted_failures_heal(self, claude, model):
        with pytest.raises(anthropic.APIConnectionError):
            await ask(claude, user("CUT:1 SAY:whole"))
        assert (await ask(claude, user("CUT:1 SAY:whole"))).content[0].text == "whole"
        await model.fail(529)
        with pytest.raises(anthropic.InternalServerError):
            await ask(claude, user("Hi"))

    async def test_garbage_is_no_message(self, claude):
        with pytest.raises((ValueError, anthropic.APIResponseValidationError)):
            await ask(claude, user("GARBAGE"))

    async def test_a_bad_script_is_refused(self, claude, model):
        with pytest.raises(anthropic.BadRequestError, match="needs a JSON string"):
            await ask(claude, user("THINK:7"))
        assert (await model.stats())["counts"]["bad_scripts"] == 1


def used(*ids: str) -> dict[str, Any]:
    calls = [{"type": "tool_use", "id": id_, "name": "roll", "input": {}} for id_ in ids]
    return {"role": "assistant", "content": calls}


def thought(text: str, signed: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, "signature": signed}


HI = user("Hi")
SAID = {"role": "assistant", "content": "Hello"}
THOUGHT = {"role": "assistant", "content": [thought("a", signature("a")), *used("a")["content"]]}
FORGED = {"role": "assistant", "content": [thought("a", "sig_b"), *used("a")["content"]]}


USED = [HI, used("a"), user([result("a")])]


class TestValidator:
    @pytest.mark.parametrize(
        ("messages", "reason"),
        [
            ([], "at least one message"),
            ([SAID, HI], "first message"),
            ([HI, HI], "alternate"),
            ([HI, SAID], "prefill"),
            ([HI, {"role": "system", "content": "x"}], "Unexpected role"),
            ([user("  ")], "non-empty"),
            ([user([])], "non-empty"),
            ([user([{"type": "text", "text": ""}])], "non-whitespace"),
            ([user([{"type": "tool_use", "id": "a", "name": "roll", "input": {}}])], "can not be"),
            ([HI, used("a"), HI], "without `tool_result` blocks immediately after: a"),
            ([HI, used("a", "b"), user([result("a")])], "without `tool_result`"),
            ([HI, used("a"), user([result("b")])], "unexpected `tool_use_id`"),
            ([user([result("a")])], "unexpected `tool_use_id`"),
            ([HI, used("a"), user([{"type": "text", "text": "x"}, result("a")])], "come first"),
            ([HI, used("a", "a"), user([result("a")])], "unique"),
            ([HI, used("a"), user([result("a")]), used("a"), user([result("a")])], "unique"),
            ([HI, used("a:b"), user([result("a:b")])], "match pattern"),
            ([HI, used("a"), user([result("a", content="", is_error=True)])], "empty"),
            ([HI, FORGED, user([result("a")])], "Invalid `signature`"),
        ],
    )
    async def test_broken_messages_are_refused(self, claude, model, messages, reason):
        with pytest.raises(anthropic.BadRequestError, match=reason):
            await ask(claude, *messages)
        assert (await model.stats())["validation_errors"] == 1

    @pytest.mark.parametrize(
        ("options", "reason"),
        [
            ({"max_tokens": 0}, "max_tokens"),
            ({"temperature": 1.5}, "temperature"),
            ({"temperature": 0.5, "thinking": THINKING}, "temperature"),
            ({"thinking": {"type": "enabled", "budget_tokens": 5}}, "1024"),
            ({"thinking": THINKING, "max_tokens": 1024}, "max_tokens"),
            ({"tools": [ROLL, ROLL]}, "unique"),
            ({"tools": [{"name": "roll", "input_schema": {"type": "string"}}]}, "object"),
            ({"tool_choice": {"type": "auto"}}, "while providing tools"),
            ({"tools": [ROLL], "tool_choice": {"type": "any"}, "thinking": THINKING}, "thinking"),
            ({"parallel_tool_calls": True}, "Extra inputs"),
            ({"system": [{"type": "text", "text": " "}]}, "non-empty"),
            ({"messages": USED, "thinking": THINKING, **TOOLS}, "start"),
            ({"messages": USED}, "must define tools"),
            ({"messages": [{**HI, "name": "bob"}]}, "Extra inputs"),
            ({"messages": [user([{"type": "image", "source": {"type": "x"}}])]}, "source"),
            (
                {"messages": [user([{"type": "text", "text": "x", "cache_control": {}}] * 5)]},
                "maximum of 4",
            ),
        ],
    )
    def test_broken_options_are_refused(self, options, reason):
        refusal = check({"model": MODEL, "max_tokens": 4096, "messages": [HI], **options})
        assert refusal is not None
        assert reason in refusal.message

    def test_a_sound_history_passes(self):
        results = user([result("a"), {"type": "text", "text": "And?"}])
        messages = [HI, THOUGHT, results, SAID, HI]
        body = {"model": MODEL, "max_tokens": 4096, "messages": messages, **TOOLS}
        assert check(body) is None
        going_on = [HI, THOUGHT, user([result("a")])]
        assert check({**body, "messages": going_on, "thinking": THINKING}) is None
