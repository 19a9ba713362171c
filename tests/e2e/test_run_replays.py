"""Replays of runs over HTTP: reports with both transcripts, refusals, and nothing that changes."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from letta_client import Letta

from tests.e2e.asking import CLAUDE, MODEL, NOBODY, says, tool_call, unique
from tests.e2e.conftest import NewAgent
from tests.scripted_model import ScriptedModelProcess
from tests.waiting import wait_for

PRICED = "openai/gpt-4.1-nano"
MEMORY = {"label": "human", "new_string": "Likes tea"}


def run_of(letta: Letta, agent_id: str, text: str) -> str:
    """The id of the run that answers this text, once it has ended."""
    answer = letta.agents.messages.create(agent_id, messages=says(text))
    return str(answer.messages[-1].run_id)


def replayed(http: httpx.Client, run_id: str, **fields: Any) -> Any:
    """The report of a replay that has ended."""
    answer = http.post(f"/v1/runs/{run_id}/replay", json=fields)
    assert answer.status_code == 200, answer.text
    report = answer.json()
    assert report["status"] == "completed", report
    return report


def belongings(letta: Letta, http: httpx.Client, agent_id: str) -> list[Any]:
    """What a replay must leave as it is."""
    agent = letta.agents.retrieve(agent_id).model_dump()
    messages = [message.model_dump() for message in letta.agents.messages.list(agent_id).items]
    runs = http.get("/v1/runs", params={"agent_id": agent_id}).json()
    steps = http.get("/v1/steps", params={"agent_id": agent_id}).json()
    return [agent, messages, runs, steps]


def test_a_recorded_replay_of_the_same_model_has_the_same_transcript(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent(model=PRICED, memory_blocks=[{"label": "human", "value": "Ada"}])
    run_id = run_of(letta, agent.id, f"{tool_call('memory_insert', **MEMORY)} SYSTEM?")
    dollars = http.get(f"/v1/runs/{run_id}/usage").json()["cost_usd"]
    letta.agents.blocks.update("human", agent_id=agent.id, value="Somebody else")
    letta.agents.update(agent.id, system="Other words")
    before = belongings(letta, http, agent.id)

    report = replayed(http, run_id)

    assert (report["same"], report["first_difference"], report["notes"]) == (True, None, [])
    assert (report["run_id"], report["agent_id"]) == (run_id, agent.id)
    first, second = report["steps"]
    assert [message["message_type"] for message in first["replayed"]["messages"]] == [
        "tool_call_message",
        "tool_return_message",
    ]
    assert [answer["source"] for answer in first["answers"]] == ["recorded"]
    [said] = second["replayed"]["messages"]
    assert "Likes tea" in said["content"], "the system message is that of then"
    assert "Somebody else" not in said["content"]
    assert said["content"] == second["recorded"]["messages"][0]["content"]
    for side in ("recorded", "replayed"):
        assert report[side]["stop_reason"] == "end_turn"
        assert report[side]["steps"] == 2
        assert report[side]["usage"]["prompt_tokens"] > 0
        assert report[side]["duration_ns"] > 0
        assert report["cost_usd"][side] == dollars
        assert 0 < second["cost_usd"][side] < dollars
    assert belongings(letta, http, agent.id) == before
    letta.agents.messages.create(agent.id, messages=says("And now?"))


def test_another_model_answers_from_a_step_on(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    run_id = run_of(letta, agent.id, f"{tool_call('memory_insert', **MEMORY)} SAY:done")
    report = replayed(http, run_id, model=CLAUDE, from_step=2)
    [step] = report["steps"]
    assert step["number"] == 2
    assert (step["recorded"]["model"], step["replayed"]["model"]) == (MODEL, CLAUDE)
    assert step["replayed"]["messages"][-1]["content"] == "done"
    assert report["model"] == CLAUDE


async def test_a_call_that_was_never_made_is_answered_with_a_mark(
    letta: Letta, http: httpx.Client, new_agent: NewAgent, model: ScriptedModelProcess
) -> None:
    agent, word = new_agent(), unique("tea")
    run_id = run_of(letta, agent.id, f"SAY:{word}")
    arguments = f'{{"label": "human", "new_string": "{word}"}}'
    call = {"id": "call_x", "type": "function"}
    call |= {"function": {"name": "memory_insert", "arguments": arguments}}  # type: ignore[dict-item]
    said = {"role": "assistant", "content": None, "tool_calls": [call]}
    answer = {"id": "x", "choices": [{"index": 0, "message": said, "finish_reason": "tool_calls"}]}
    await model.answer(word, answer)
    report = replayed(http, run_id)
    assert (report["same"], report["first_difference"]) == (False, 1)
    first = report["steps"][0]
    assert [(each["tool"], each["source"]) for each in first["answers"]] == [
        ("memory_insert", "not_recorded")
    ]
    assert "did not make this call" in first["replayed"]["messages"][-1]["tool_return"]
    assert first["differences"]
    assert report["steps"][1]["recorded"] is None
    assert word not in str(letta.agents.blocks.list(agent.id).items)


def test_a_live_replay_calls_tools_but_changes_no_memory(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    name = unique("roll").replace("-", "_")
    body = "    import os\n    return os.urandom(8).hex()\n"
    source = f'def {name}() -> str:\n    """Roll a die."""\n{body}'
    tool = letta.tools.create(source_code=source)
    agent = new_agent(tool_ids=[tool.id])
    script = f"CALL:{name} {tool_call('memory_insert', **MEMORY)} SAY:done"
    run_id = run_of(letta, agent.id, script)
    before = letta.agents.retrieve(agent.id).model_dump()
    report = replayed(http, run_id, mode="live")
    roll, insert, _ = report["steps"]
    assert [answer["source"] for answer in roll["answers"]] == ["live"]
    results = [roll[side]["messages"][-1]["tool_return"] for side in ("recorded", "replayed")]
    assert results[0] != results[1]
    assert report["first_difference"] == 1
    assert [answer["source"] for answer in insert["answers"]] == ["recorded"]
    assert "reads or changes" in insert["answers"][0]["note"]
    assert letta.agents.retrieve(agent.id).model_dump() == before


async def test_what_a_model_was_asked_in_a_step_is_read_from_the_log(
    letta: Letta, ahttp: httpx.AsyncClient, new_agent: NewAgent, model: ScriptedModelProcess
) -> None:
    agent, word = new_agent(), unique("asked")
    run_id = run_of(letta, agent.id, f"{tool_call('memory_insert', **MEMORY)} SAY:{word}")
    letta.agents.update(agent.id, system="Other words")
    steps = (await ahttp.get(f"/v1/runs/{run_id}/steps", params={"order": "asc"})).json()
    bodies = [body for body in await model.requests(last=256) if word in str(body["messages"])]
    for step, body in zip(steps, bodies, strict=True):
        shown = (await ahttp.get(f"/v1/steps/{step['id']}/request")).json()
        assert (shown["run_id"], shown["notes"]) == (run_id, [])
        assert shown["request"]["messages"] == body["messages"]
        assert shown["request"]["tools"] == body["tools"]
    unknown = await ahttp.get(f"/v1/steps/step-{NOBODY}/request")
    assert (unknown.status_code, NOBODY in unknown.text) == (404, True)


async def test_tools_are_offered_as_they_were_then(
    letta: Letta, http: httpx.Client, new_agent: NewAgent, model: ScriptedModelProcess
) -> None:
    names = [unique(word).replace("-", "_") for word in ("changed", "deleted")]
    tools = [
        letta.tools.create(source_code=f'def {name}() -> str:\n    """As then."""\n    return ""\n')
        for name in names
    ]
    agent, word = new_agent(tool_ids=[tool.id for tool in tools]), unique("said")
    run_id = run_of(letta, agent.id, f"SAY:{word}")
    source = f'def {names[0]}() -> str:\n    """As now."""\n    return ""\n'
    letta.tools.update(tools[0].id, source_code=source)
    letta.tools.delete(tools[1].id)
    report = replayed(http, run_id)
    assert (report["same"], report["notes"]) == (True, [])
    first, again = [
        body for body in await model.requests(last=256) if word in str(body["messages"])
    ]
    assert first["tools"] == again["tools"]
    assert first["messages"] == again["messages"]
    assert str(again["tools"]).count("As then.") == 2


async def test_a_replay_in_the_background_is_read_by_its_id(
    letta: Letta, ahttp: httpx.AsyncClient, new_agent: NewAgent
) -> None:
    agent = new_agent()
    run_id = run_of(letta, agent.id, "SAY:hello")
    key = {"Idempotency-Key": unique("key")}
    asked = {"background": True}
    begun = await ahttp.post(f"/v1/runs/{run_id}/replay", json=asked, headers=key)
    assert begun.status_code == 202
    path = f"/v1/runs/{run_id}/replays/{begun.json()['id']}"

    async def ended() -> bool:
        return bool((await ahttp.get(path)).json()["status"] == "completed")

    await wait_for("the replay has ended", ended)
    again = await ahttp.post(f"/v1/runs/{run_id}/replay", json=asked, headers=key)
    assert again.json()["id"] == begun.json()["id"]
    report = (await ahttp.get(path)).json()
    assert report["same"]
    [listed] = (await ahttp.get(f"/v1/runs/{run_id}/replays")).json()
    assert listed == {name: value for name, value in report.items() if name != "steps"}
    none = await ahttp.get(f"/v1/runs/{run_id}/replays", params={"limit": 0})
    assert none.json() == []


def test_replays_go_with_their_run(letta: Letta, http: httpx.Client, new_agent: NewAgent) -> None:
    agent = new_agent()
    run_id = run_of(letta, agent.id, "SAY:hello")
    replay_id = replayed(http, run_id)["id"]
    http.delete(f"/v1/runs/{run_id}").raise_for_status()
    gone = http.get(f"/v1/runs/{run_id}/replays/{replay_id}")
    assert (gone.status_code, run_id in gone.text) == (404, True)


@pytest.mark.parametrize(
    ("fields", "status", "word"),
    [
        ({"mode": "other"}, 422, "mode"),
        ({"from_step": 0}, 422, "from_step"),
        ({"from_step": 9}, 422, "from_step"),
        ({"model": "openai/none-such"}, 404, "none-such"),
    ],
)
def test_a_wrong_field_is_refused_by_name(
    letta: Letta, http: httpx.Client, new_agent: NewAgent, fields: Any, status: int, word: str
) -> None:
    agent = new_agent()
    run_id = run_of(letta, agent.id, "SAY:hello")
    answer = http.post(f"/v1/runs/{run_id}/replay", json=fields)
    assert (answer.status_code, word in answer.text) == (status, True), answer.text


def test_what_cannot_be_replayed_is_refused(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    unknown = f"run-{NOBODY}"
    for path in ("replay", "replays", f"replays/replay-{NOBODY}"):
        method = "POST" if path == "replay" else "GET"
        answer = http.request(method, f"/v1/runs/{unknown}/{path}")
        assert (answer.status_code, unknown in answer.text) == (404, True), answer.text
    agent = new_agent()
    run_id = run_of(letta, agent.id, "SAY:hello")
    absent = http.get(f"/v1/runs/{run_id}/replays/replay-{NOBODY}")
    assert (absent.status_code, NOBODY in absent.text) == (404, True)
    asking = new_agent(tool_rules=[{"type": "requires_approval", "tool_name": "memory_insert"}])
    run_id = run_of(letta, asking.id, tool_call("memory_insert", **MEMORY))
    live = http.post(f"/v1/runs/{run_id}/replay", json={"mode": "live"})
    assert (live.status_code, "memory_insert" in live.text) == (409, True)
    report = replayed(http, run_id)
    assert report["same"]
    assert report["replayed"]["stop_reason"] == "requires_approval"


def test_a_run_of_a_fork_is_replayed_as_well(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    run_of(letta, agent.id, f"{tool_call('memory_insert', **MEMORY)} SYSTEM?")
    letta.agents.update(agent.id, system="Other words")
    fork = http.post(f"/v1/agents/{agent.id}/fork", json={}).json()
    try:
        [run] = http.get("/v1/runs", params={"agent_id": fork["id"]}).json()
        report = replayed(http, run["id"])
        assert (report["same"], report["notes"]) == (True, []), report
        assert "Likes tea" in str(report["steps"][1]["replayed"]["messages"])
    finally:
        letta.agents.delete(fork["id"])
