"""The scripted model answers the real OpenAI SDK as its scripts say."""

import asyncio
import hashlib
import json

import openai
import pytest

from tests.unit.scripted_model.asking import (
    DEFAULT,
    MODEL,
    ask,
    joined,
    results,
    say,
    streamed,
    tool,
    user,
)


class TestText:
    async def test_a_plain_message_gets_the_default_text_with_usage(self, client):
        reply = await ask(client, "Hi")
        assert reply.choices[0].message.content == DEFAULT
        assert reply.choices[0].message.tool_calls is None
        assert reply.choices[0].finish_reason == "stop"
        assert reply.model == MODEL
        assert reply.usage.total_tokens == (
            reply.usage.prompt_tokens + reply.usage.completion_tokens
        )

    async def test_say_is_exact_to_the_end_of_the_message(self, client):
        assert await say(client, "SAY: two  spaces\nCALL:roll EMPTY ") == (
            " two  spaces\nCALL:roll EMPTY "
        )

    @pytest.mark.parametrize(
        "content",
        [
            '{"type": "user_message", "message": "SAY:hi", "time": "now"}',
            [{"type": "text", "text": "SAY:hi"}],
            [{"type": "text", "text": '{"type": "user_message", "message": "SAY:hi"}'}],
        ],
    )
    async def test_the_script_is_found_in_wrapped_and_in_listed_content(self, client, content):
        assert await say(client, [{"role": "user", "content": content}]) == "hi"

    async def test_echo_tells_the_message_count_and_the_system_prompt_sha1(self, client):
        digest = hashlib.sha1(b"Be kind.").hexdigest()
        assert await say(client, "ECHO") == f"messages=2 system_sha1={digest}"

    async def test_system_replies_with_the_last_system_message(self, client):
        assert await say(client, "SYSTEM?") == "Be kind."

    async def test_empty_has_no_text(self, client):
        assert await say(client, "EMPTY") == ""

    async def test_length_finishes_for_length(self, client):
        choice = (await ask(client, "LENGTH SAY:cut sho")).choices[0]
        assert (choice.message.content, choice.finish_reason) == ("cut sho", "length")

    async def test_words_inside_words_are_no_directives(self, client):
        assert await say(client, "HANGING and RECALL:roll, xEMPTY", tools=[tool()]) == DEFAULT

    async def test_an_unreadable_directive_is_refused_by_name(self, client):
        with pytest.raises(openai.BadRequestError, match="CALL:roll: is followed by invalid JSON"):
            await ask(client, 'CALL:roll:{"a"', tools=[tool()])


class TestToolCalls:
    async def test_calls_come_one_per_step_and_then_the_text(self, client):
        messages = user('CALL:roll:{"sides": 6}\nCALL:look:{"at": "CALL:roll"}\nSAY:done')
        tools = [tool("roll"), tool("look")]
        seen = []
        for _ in range(2):
            reply = (await ask(client, messages, tools=tools)).choices[0]
            assert reply.finish_reason == "tool_calls"
            assert reply.message.content is None
            [call] = reply.message.tool_calls
            seen.append((call.function.name, json.loads(call.function.arguments)))
            messages += results(reply.message)
        assert seen == [("roll", {"sides": 6}), ("look", {"at": "CALL:roll"})]
        assert await say(client, messages, tools=tools) == "done"

    async def test_calls_in_a_list_come_together(self, client, model):
        text = 'CALLS:[{"name": "roll", "arguments": {"sides": 6}}, {"name": "look"}] SAY:both'
        messages = user(text)
        tools = [tool("roll"), tool("look")]
        message = (await ask(client, messages, tools=tools)).choices[0].message
        assert [(c.function.name, c.function.arguments) for c in message.tool_calls] == [
            ("roll", '{"sides": 6}'),
            ("look", "{}"),
        ]
        assert await say(client, messages + results(message), tools=tools) == "both"
        assert await model.asked(text) == {0: 1, 2: 1}

    async def test_a_call_without_arguments_fills_what_the_schema_requires(self, client):
        properties = {
            "sides": {"type": "integer"},
            "color": {"enum": ["red"]},
            "note": {"type": "string"},
        }
        tools = [tool(properties=properties, required=["sides", "color"])]
        message = (await ask(client, "CALL:roll", tools=tools)).choices[0].message
        assert message.tool_calls[0].function.arguments == '{"sides": 1, "color": "red"}'

    async def test_badargs_sends_arguments_that_are_not_json(self, client):
        message = (await ask(client, "BADARGS:roll", tools=[tool()])).choices[0].message
        assert message.tool_calls[0].function.name == "roll"
        with pytest.raises(json.JSONDecodeError):
            json.loads(message.tool_calls[0].function.arguments)

    async def test_ids_have_openai_form_and_never_repeat(self, client):
        replies = [await ask(client, "CALL:roll", tools=[tool()]) for _ in range(3)]
        ids = {reply.choices[0].message.tool_calls[0].id for reply in replies}
        assert len(ids) == 3
        assert all(len(i) == 29 and int(i.removeprefix("call_"), 16) >= 0 for i in ids)

    async def test_a_call_needs_tools_and_yields_to_the_tool_choice(self, client):
        tools = [tool("roll"), tool("look")]
        assert await say(client, "CALL:roll") == DEFAULT
        assert await say(client, "CALL:roll", tools=tools, tool_choice="none") == DEFAULT
        forced = {"type": "function", "function": {"name": "look"}}
        for choice, name in ((forced, "look"), ("required", "roll")):
            reply = await ask(client, "Hi", tools=tools, tool_choice=choice)
            assert reply.choices[0].message.tool_calls[0].function.name == name

    async def test_a_new_user_message_starts_a_new_turn(self, client):
        messages = user("CALL:roll SAY:one")
        message = (await ask(client, messages, tools=[tool()])).choices[0].message
        messages += [*results(message), {"role": "assistant", "content": "one"}]
        messages += [{"role": "user", "content": "CALL:roll SAY:two"}]
        again = (await ask(client, messages, tools=[tool()])).choices[0].message
        assert again.tool_calls[0].id != message.tool_calls[0].id


class TestStream:
    async def test_text_comes_in_pieces_and_ends_with_usage_when_asked(self, client):
        chunks = await streamed(client, "Hi", stream_options={"include_usage": True})
        assert joined(chunks) == DEFAULT
        assert sum(bool(c.choices and c.choices[0].delta.content) for c in chunks) > 1
        assert chunks[-2].choices[0].finish_reason == "stop"
        assert chunks[-1].choices == []
        assert chunks[-1].usage.completion_tokens == len(DEFAULT) // 4
        assert all(chunk.usage is None for chunk in chunks[:-1])

    async def test_no_usage_comes_unasked(self, client):
        chunks = await streamed(client, "Hi")
        assert chunks[-1].choices[0].finish_reason == "stop"
        assert all(chunk.usage is None for chunk in chunks)

    async def test_parallel_tool_calls_are_assembled_by_index(self, client):
        text = (
            'CALLS:[{"name": "roll", "arguments": {"why": "a long enough reason"}}, '
            '{"name": "look"}]'
        )
        calls: dict[int, list[str]] = {}
        for chunk in await streamed(client, text, tools=[tool("roll"), tool("look")]):
            for call in chunk.choices[0].delta.tool_calls or []:
                if call.id:
                    calls[call.index] = [call.function.name, ""]
                calls[call.index][1] += call.function.arguments
        assert calls == {0: ["roll", '{"why": "a long enough reason"}'], 1: ["look", "{}"]}

    async def test_drip_spaces_the_events(self, client):
        loop = asyncio.get_running_loop()
        start = loop.time()
        chunks = await streamed(client, "DRIP:20 SAY:drop by drop by drop")
        assert joined(chunks) == "drop by drop by drop"
        assert loop.time() - start >= 0.08

    async def test_a_client_that_leaves_a_dripping_stream_counts_as_abandoned(self, client, model):
        text = "DRIP:60000 leave"
        stream = await ask(client, text, stream=True)
        assert (await anext(aiter(stream))).choices[0].delta.role == "assistant"
        await stream.close()
        await model.wait_for_count("abandoned")
        assert await model.answered(text) == {}


class TestOtherRoutes:
    async def test_models_are_listed_with_and_without_the_prefix(self, client, model):
        names = [listed.id async for listed in client.models.list()]
        assert {"gpt-4o-mini", "gpt-4.1", "gpt-5-mini"} <= set(names)
        bare = client.with_options(base_url=model.origin)
        assert [listed.id async for listed in bare.models.list()] == names
        assert await say(bare, "SAY:bare") == "bare"
        assert (await client.models.retrieve("gpt-4.1")).id == "gpt-4.1"
        with pytest.raises(openai.NotFoundError):
            await client.models.retrieve("gpt-none")

    @pytest.mark.parametrize("encoding", ["float", "base64", None])
    async def test_embeddings_are_unit_vectors_near_for_shared_words(self, client, encoding):
        texts = ["the red fox", "a red fox", "quantum chromodynamics"]
        options = {"encoding_format": encoding} if encoding != "base64" else {}
        reply = await client.embeddings.create(
            model="text-embedding-3-small", input=texts, dimensions=256, **options
        )
        red, fox, far = (item.embedding for item in reply.data)
        assert len(red) == 256
        assert sum(component * component for component in red) == pytest.approx(1, abs=1e-5)
        near = sum(left * y for left, y in zip(red, fox, strict=True))
        assert near > 0.5 > sum(left * y for left, y in zip(red, far, strict=True))

    async def test_an_embedding_has_the_dimensions_of_its_model(self, client):
        for name, dimensions in (("small", 1536), ("large", 3072)):
            reply = await client.embeddings.create(model=f"text-embedding-3-{name}", input="fox")
            assert len(reply.data[0].embedding) == dimensions
