"""The model of scripts: its replies stand in the metadata of the agent."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from libs.contracts.agent.conversations import Message
from libs.contracts.agent.scripted_replies import HANDLE, METADATA_KEY
from services.agent.adapters.models.ports import ModelFailed, ReasoningDelta
from services.agent.adapters.models.scripted_model import ScriptedProvider, answer
from services.agent.domain.prompts.model_context import ModelRequest
from services.agent.domain.runs.step_results import Failure
from tests.contract.examples import AT, CONFIG, SYSTEM, message
from tests.unit.agent.asking import SCHEMAS, reply_to, streamed

LATER = AT + timedelta(seconds=1)
HELLO, BYE = {"text": "Hello."}, {"text": "Bye."}
NOTE = {"tool_calls": [{"name": "memory_insert", "arguments": {"label": "human"}}]}


def user(text: str, number: int = 50) -> Message:
    return message(number, role="user", content=text, created_at=LATER)


def said(text: str, number: int = 51) -> Message:
    return message(number, role="assistant", content=text, created_at=LATER)


def asked(replies: Any, *messages: Message) -> ModelRequest:
    config = CONFIG.model_copy(update={"metadata": {METADATA_KEY: replies}})
    return ModelRequest(config, [SYSTEM, *messages], SCHEMAS, parallel=True)


def failure(replies: Any, *messages: Message) -> Failure:
    with pytest.raises(ModelFailed) as raised:
        answer(asked(replies, *messages))
    return raised.value.failure


def test_replies_are_given_in_their_order() -> None:
    first, second = user("Hi"), user("And now?", 52)
    assert answer(asked([HELLO, BYE], first)).text == "Hello."
    assert answer(asked([HELLO, BYE], first, said("Hello."), second)).text == "Bye."


def test_a_call_is_one_of_a_model_and_the_same_when_the_run_goes_on_elsewhere() -> None:
    request = asked([NOTE], user("Hi"))
    reply = answer(request)
    [call] = reply.tool_calls
    assert (call.name, json.loads(call.arguments)) == ("memory_insert", {"label": "human"})
    assert reply.finish_reason == "tool_calls"
    assert answer(request) == reply


def test_a_reply_that_matches_goes_before_the_others_and_uses_none_of_them_up() -> None:
    replies = [HELLO, {"match": "ping", "text": "pong"}]
    ping = user("Say ping to me")
    assert answer(asked(replies, ping)).text == "pong"
    assert answer(asked(replies, ping, said("pong"), user("Hi", 52))).text == "Hello."
    result = message(53, role="tool", content="ping", tool_call_id="1", created_at=LATER)
    assert answer(asked(replies, user("Hi"), said("", 52), result)).text == "pong"


def test_what_an_agent_begins_with_is_no_reply() -> None:
    greeting = message(40, role="assistant", content="More human than human.", created_at=AT)
    assert answer(asked([HELLO, BYE], greeting, user("Hi"))).text == "Hello."


def test_a_script_that_has_ended_says_so_and_what_it_heard() -> None:
    ended = failure([HELLO], user("Hi"), said("Hello."), user("Who are you?", 52))
    assert ended.error_type == "llm_error"
    assert ended.message == (
        f"{HANDLE}: all 1 replies of the script were given, and none matches 'Who are you?'"
    )


@pytest.mark.parametrize(
    ("replies", "words"),
    [
        (None, "`metadata.scripted_replies` of the agent: Input should be a valid list"),
        ([{"txt": "Hi"}], "`metadata.scripted_replies.0.txt` of the agent: Extra inputs"),
    ],
)
def test_an_agent_without_a_script_is_told_where_it_belongs(replies: Any, words: str) -> None:
    assert words in failure(replies, user("Hi")).message


def test_a_script_may_want_a_failure() -> None:
    assert failure([{"error": "llm_rate_limit"}], user("Hi")).error_type == "llm_rate_limit"


async def test_the_chunks_are_the_whole_reply() -> None:
    reply = {"text": "Hello to you.", "reasoning": "A greeting.", **NOTE}
    deltas, whole = await streamed(ScriptedProvider(), asked([reply], user("Hi")))
    assert deltas[0] == ReasoningDelta("A greeting.")
    assert whole == await reply_to(ScriptedProvider(), asked([reply], user("Hi")))


def test_tokens_are_what_the_script_says_or_an_estimate() -> None:
    counted = answer(asked([{**HELLO, "prompt_tokens": 7, "completion_tokens": 0}], user("Hi")))
    assert (counted.usage.prompt_tokens, counted.usage.completion_tokens) == (7, 0)
    assert answer(asked([HELLO], user("Hi"))).usage.prompt_tokens > 0
