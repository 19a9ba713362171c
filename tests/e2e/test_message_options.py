"""What a message request may want otherwise than its agent is set up, for its run alone."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from letta_client import Letta

from services.agent.engine.one_off_completions import AGENT_COMPLETIONS_MAX
from tests.e2e.asking import CLAUDE, MODEL, NOBODY, SECONDS_MAX, kinds, says, stream, unique
from tests.e2e.conftest import NewAgent
from tests.scripted_model import ScriptedModelProcess
from tests.servers import HeelerInstance

OTHER = "openai/gpt-4.1"


@pytest.mark.operation("POST /v1/agents/{agent_id}/messages")
def test_another_model_answers_one_request(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    search = 'CALL:conversation_search:{"query": "tea"}'
    answer = letta.agents.messages.create(agent.id, messages=says(search), override_model=OTHER)
    letta.agents.messages.create(agent.id, messages=says("And now?"))

    models = [step.model_handle for step in letta.steps.list(agent_id=agent.id, order="asc")]

    assert models == [OTHER, OTHER, MODEL], "each step of that run, and no other"
    assert letta.agents.retrieve(agent.id).model == MODEL
    assert answer.stop_reason.stop_reason == "end_turn"
    lines = stream(http, agent.id, "Hi", override_model=OTHER)
    assert kinds(lines)[-1] == "[DONE]"
    assert letta.steps.list(agent_id=agent.id, limit=1).items[0].model_handle == OTHER

    before = len(letta.runs.list(agent_id=agent.id).items)
    for handle, status in (("openai/nobody", 404), ("nobody/at-all", 404)):
        body = {"messages": says("Hi"), "override_model": handle}
        refused = http.post(f"/v1/agents/{agent.id}/messages", json=body)
        assert refused.status_code == status, refused.text
        assert handle in refused.json()["detail"]
    assert len(letta.runs.list(agent_id=agent.id).items) == before


@pytest.mark.operation("POST /v1/agents/{agent_id}/messages")
def test_another_system_message_is_shown_for_one_request(letta: Letta, new_agent: NewAgent) -> None:
    agent = new_agent()

    def system(**fields: Any) -> str:
        answer = letta.agents.messages.create(agent.id, messages=says("SYSTEM?"), **fields)
        return str(answer.messages[-1].content)  # type: ignore[union-attr]

    own = system()
    assert "Name: Ada" in own
    assert system(override_system="Talk like a pirate.") == "Talk like a pirate."
    assert system() == own
    stored = [message for message in letta.agents.messages.list(agent.id) if message.id]
    first = next(message for message in stored if message.message_type == "system_message")
    assert first.content == own, "the history keeps the agent's own"


@pytest.mark.operation("POST /v1/agents/{agent_id}/messages/async")
async def test_a_run_keeps_its_options_while_it_waits(
    letta: Letta, new_agent: NewAgent, model: ScriptedModelProcess
) -> None:
    agent = new_agent()
    slow = f"SLOW:800 {unique('first')}"
    letta.agents.messages.create_async(agent.id, messages=says(slow))
    waiting = letta.agents.messages.create_async(
        agent.id, messages=says("SYSTEM?"), override_system="Be brief.", override_model=OTHER
    )
    last = letta.agents.messages.create(agent.id, messages=says("Done?"))
    assert last.stop_reason.stop_reason == "end_turn"
    messages = list(letta.runs.messages.list(waiting.id))
    assert messages[-1].content == "Be brief."  # type: ignore[union-attr]
    [step] = letta.runs.steps.list(waiting.id).items
    assert step.model_handle == OTHER


@pytest.mark.operation("POST /v1/agents/{agent_id}/messages")
def test_how_likely_the_tokens_of_the_last_answer_were_is_told(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    search = 'CALL:conversation_search:{"query": "tea"} SAY:Tea it is'

    answer = letta.agents.messages.create(
        agent.id,
        messages=says(search),
        return_logprobs=True,
        top_logprobs=2,
        return_token_ids=True,
    )

    assert answer.logprobs is not None
    assert answer.logprobs.content is not None
    assert [logprob.token for logprob in answer.logprobs.content] == ["Tea", "it", "is"]
    assert [logprob.logprob for logprob in answer.logprobs.content] == [0, -0.125, -0.25]
    assert [len(logprob.top_logprobs) for logprob in answer.logprobs.content] == [2, 2, 2]
    assert answer.turns is not None
    assert [turn.role for turn in answer.turns] == ["assistant", "tool", "assistant"]
    called, returned, said = answer.turns
    assert (called.output_ids, returned.tool_name) == (None, "conversation_search")
    assert (said.content, said.output_ids) == ("Tea it is", [0, 1, 2])
    assert said.output_token_logprobs == [[0, 0, None], [-0.125, 1, None], [-0.25, 2, None]]
    plain = letta.agents.messages.create(agent.id, messages=says("Hi"))
    assert (plain.logprobs, plain.turns) == (None, None)

    def refused(**fields: Any) -> str:
        body = {"messages": says("Hi"), **fields}
        answer = http.post(f"/v1/agents/{agent.id}/messages", json=body)
        assert answer.status_code == 422
        return str(answer.json()["detail"])

    assert "needs `return_logprobs`" in refused(top_logprobs=3)
    assert "between 0 and 20" in refused(return_logprobs=True, top_logprobs=21)


@pytest.mark.operation("POST /v1/agents/{agent_id}/messages")
def test_a_stream_keeps_what_is_known_of_its_tokens_with_the_step(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    lines = stream(http, agent.id, "SAY:So be it", stream_tokens=True, return_logprobs=True)
    assert kinds(lines)[-1] == "[DONE]"
    [step] = letta.steps.list(agent_id=agent.id).items
    trace = http.get(f"/v1/steps/{step.id}/trace").json()
    tokens = [entry["token"] for entry in trace["response_json"]["logprobs"]["content"]]
    assert tokens == ["So", "be", "it"]


@pytest.mark.operation("POST /v1/agents/{agent_id}/generate")
def test_a_model_is_asked_a_single_question_without_the_agent(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    before = [message.id for message in letta.agents.messages.list(agent.id)]
    path = f"/v1/agents/{agent.id}/generate"

    answer = http.post(path, json={"prompt": "SYSTEM?", "system_prompt": "Talk like a pirate."})

    assert answer.status_code == 200, answer.text
    assert answer.json().keys() == {"content", "model", "usage"}
    assert answer.json()["content"] == "Talk like a pirate."
    assert answer.json()["model"] == "gpt-4o-mini"
    usage = answer.json()["usage"]
    assert (usage["message_type"], usage["step_count"], usage["run_ids"]) == (
        "usage_statistics", 0, None,
    )  # fmt: skip
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0
    other = http.post(path, json={"prompt": "SAY:Hi", "override_model": OTHER}).json()
    assert (other["content"], other["model"]) == ("Hi", "gpt-4.1")
    claude = http.post(path, json={"prompt": "SAY:Hi", "override_model": CLAUDE}).json()
    assert (claude["content"], claude["model"]) == ("Hi", CLAUDE.partition("/")[2])
    assert letta.runs.list(agent_id=agent.id).items == []
    assert letta.steps.list(agent_id=agent.id).items == []
    assert [message.id for message in letta.agents.messages.list(agent.id)] == before

    schema = {"type": "object", "properties": {"colour": {"type": "string"}}}
    for handle in (MODEL, CLAUDE):
        wanted = {"prompt": "Which?", "response_schema": schema, "override_model": handle}
        formed = http.post(path, json=wanted)
        assert formed.status_code == 200, formed.text
        assert isinstance(json.loads(formed.json()["content"])["colour"], str)


@pytest.mark.operation("POST /v1/agents/{agent_id}/generate")
def test_a_single_question_that_gets_no_answer_says_why(
    http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    path = f"/v1/agents/{agent.id}/generate"

    def refused(status: int, path: str = path, **fields: Any) -> str:
        answer = http.post(path, json={"prompt": "Hi", **fields})
        assert answer.status_code == status, answer.text
        return str(answer.json()["detail"])

    assert "LLM provider error: " in refused(502, prompt=f"FAIL:400 {unique('no')}")
    assert "Agent" in refused(404, f"/v1/agents/agent-{NOBODY}/generate")
    assert "openai/nobody" in refused(404, override_model="openai/nobody")
    assert "white space" in refused(422, prompt="  \n")
    assert "prompt" in refused(422, prompt=None)
    assert "`properties`" in refused(422, response_schema={"type": "string"})


@pytest.mark.operation("POST /v1/agents/{agent_id}/generate")
async def test_who_asks_too_much_at_once_is_told_so_and_nobody_else_is(
    new_agent: NewAgent, heeler: HeelerInstance, model: ScriptedModelProcess
) -> None:
    agent, other = new_agent(), new_agent()
    question = f"SLOW:4000 {unique('left')}"
    async with httpx.AsyncClient(base_url=heeler.base_url, timeout=SECONDS_MAX) as client:

        async def ask(agent_id: str, prompt: str = "Hi") -> int:
            path = f"/v1/agents/{agent_id}/generate"
            return (await client.post(path, json={"prompt": prompt})).status_code

        asking = [
            asyncio.create_task(ask(agent.id, question)) for _ in range(AGENT_COMPLETIONS_MAX)
        ]
        await model.wait_for_asked(question, times=AGENT_COMPLETIONS_MAX)
        assert [await ask(agent.id), await ask(other.id)] == [429, 200]
        for task in asking:
            task.cancel()  # their clients hang up
        await asyncio.gather(*asking, return_exceptions=True)
        assert await ask(other.id) == 200
