"""What a request wants otherwise than its agent is set up: it counts for its run, and no other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from libs.contracts.agent.conversations import ToolCall, Usage
from libs.contracts.agent.runs import RunOptions
from libs.contracts.bus_messages import NOT_FOUND, Accepted, Rejected
from services.agent.adapters.models.openai_answer import OpenAIAnswer
from services.agent.adapters.models.transport import TooLong
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.runs.step_results import ModelReply
from tests.contract.examples import LLM
from tests.unit.agent.openai_documents import body_of, reply_of
from tests.unit.agent.world import CONVERSATION, Process, World

SPENT = Usage(prompt_tokens=10, completion_tokens=2)
HI = ModelReply("Hi", [], "stop", SPENT)
FIND = ToolCall(id="call_1", name="conversation_search", arguments='{"query": "tea"}')
CALL = ModelReply("", [FIND], "tool_calls", SPENT)
BRIEF = "Be brief."


@pytest.fixture
async def world() -> World:
    world = World()
    await world.agent()
    await world.start_memory()
    return world


async def say(process: Process, run_id: str, options: RunOptions) -> Accepted | Rejected:
    return await process.tell(process.start_run(run_id, options=options), f"say-{run_id}")


def systems(process: Process) -> list[Any]:
    return [request.messages[0].content for request in process.model.asked]


async def test_each_step_of_the_run_goes_by_its_options_and_the_next_run_does_not(
    world: World,
) -> None:
    process = world.process("one", CALL, HI, HI)
    options = RunOptions(model=LLM.handle, system=BRIEF, logprobs=True, top_logprobs=2)
    assert isinstance(await say(process, "run-1", options), Accepted)
    await process.say("run-2")
    await process.idle()

    first, second, other = process.model.asked
    assert systems(process)[:2] == [BRIEF, BRIEF]
    assert systems(process)[2] != BRIEF
    for request in (first, second):
        llm = request.config.llm_config
        assert (llm.handle, llm.return_logprobs, llm.top_logprobs) == (LLM.handle, True, 2)
        assert body_of(request)["logprobs"] is True
    assert "logprobs" not in body_of(other)
    conversation = await process.repository.load(Conversation, CONVERSATION, org="org-1")
    assert conversation.state.window[0].content != BRIEF, "history keeps the agent's own"
    assert conversation.state.queued_bytes == 0


async def test_a_model_that_nobody_offers_starts_nothing(world: World) -> None:
    process = world.process("one")
    refused = await say(process, "run-1", RunOptions(model="nobody/at-all"))
    assert isinstance(refused, Rejected)
    assert refused.code == NOT_FOUND
    assert world.schema.rows("runs") == []


async def test_whoever_takes_the_run_over_goes_on_by_its_options(world: World) -> None:
    first = world.process("one", CALL, RuntimeError("out of order"))
    assert isinstance(await say(first, "run-1", RunOptions(system=BRIEF)), Accepted)
    await first.idle()
    second = world.process("two", HI)
    await second.drivers.sweep()
    await second.idle()
    assert systems(second) == [BRIEF]
    [run] = world.schema.rows("runs")
    assert run["status"] == "completed"


CHOICE = {
    "message": {"content": "So be"},
    "finish_reason": "stop",
    "logprobs": {
        "content": [
            {
                "token": "So",
                "logprob": -0.5,
                "bytes": [83, 111],
                "top_logprobs": [{"token": "No", "logprob": -2, "bytes": None}],
            },
            {"token": " be", "logprob": -1, "bytes": None, "top_logprobs": []},
        ]
    },
    "token_ids": [7, 8],
}
TOLD = {
    "content": [
        {
            "token": "So",
            "logprob": -0.5,
            "bytes": [83, 111],
            "top_logprobs": [{"token": "No", "logprob": -2.0, "bytes": None}],
        },
        {"token": " be", "logprob": -1.0, "bytes": None, "top_logprobs": []},
    ],
    "refusal": None,
}


def test_what_a_provider_says_of_its_tokens_is_kept_whole_and_in_pieces() -> None:
    reply = reply_of({"choices": [CHOICE]})
    assert (reply.logprobs, reply.token_ids) == (TOLD, [7, 8])
    answer = OpenAIAnswer("seed")
    logprobs: Any = CHOICE["logprobs"]
    for number, piece in enumerate(("So", " be")):
        one = {"content": [logprobs["content"][number]]}
        delta = {"delta": {"content": piece}, "logprobs": one, "token_ids": [7 + number]}
        answer.read(json.dumps({"choices": [delta]}))
    _, streamed = answer.end()
    assert (streamed.logprobs, streamed.token_ids) == (TOLD, [7, 8])


@pytest.mark.parametrize("odd", [{"token_ids": ["a"]}, {"token_ids": [-1]}])
def test_what_is_no_token_is_left_out_and_the_answer_stays(odd: dict[str, Any]) -> None:
    reply = reply_of({"choices": [{**CHOICE, **odd}]})
    assert (reply.text, reply.logprobs, reply.token_ids) == ("So be", None, None)


def test_more_tokens_than_can_be_kept_are_refused() -> None:
    with pytest.raises(TooLong):
        reply_of({"choices": [{**CHOICE, "token_ids": [1] * 100_001}]})
