"""GRP-08, GRP-09, GRP-10: messages go to whoever can answer them, by capability and by pattern."""

from __future__ import annotations

import asyncio
from ast import literal_eval
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import httpx
import pytest
from letta_client import Letta

from libs.contracts.agent.runs import HOPS_MAX
from tests.e2e.asking import (
    HELLO,
    NOBODY,
    SDK_HEADERS,
    SECONDS_MAX,
    says,
    tool_call,
    tool_return,
    unique,
)
from tests.e2e.conftest import NewAgent
from tests.e2e.two_organisations import STRANGER, api_of_two, client_of
from tests.scripted_model import ScriptedModelProcess
from tests.servers import HeelerInstance
from tests.waiting import wait_for


@pytest.fixture
async def web(heeler: HeelerInstance) -> AsyncIterator[httpx.AsyncClient]:
    """Bare HTTP, for what goes on while a test waits."""
    async with httpx.AsyncClient(
        base_url=heeler.base_url, headers=SDK_HEADERS, timeout=SECONDS_MAX
    ) as client:
        yield client


def can(*names: str, **fields: Any) -> dict[str, Any]:
    """The fields of an agent that declares these capabilities."""
    return {"extra_body": {"capabilities": [*names]}, **fields}


def with_priority(name: str, priority: int, **fields: Any) -> dict[str, Any]:
    """The fields of an agent that declares a capability with a priority."""
    return {"extra_body": {"capabilities": [{"name": name, "priority": priority}]}, **fields}


def made(answer: httpx.Response, status: int = 200) -> Any:
    """The JSON of an answer of this status."""
    assert answer.status_code == status, answer.text
    return answer.json()


def texts(response: dict[str, Any]) -> list[str]:
    """What an agent said in a response."""
    found = [m for m in response["messages"] if m["message_type"] == "assistant_message"]
    return [message["content"] for message in found]


async def test_capabilities_are_declared_found_and_withdrawn(
    web: httpx.AsyncClient, new_agent: NewAgent
) -> None:
    name, other = unique("data-analysis"), unique("poetry")
    ada = new_agent(**can(name, other, tags=["team"]))
    bob = new_agent(**with_priority(name, 5))

    shown = made(await web.get(f"/v1/agents/{ada.id}"))["capabilities"]
    assert shown == [
        {"name": name, "description": None, "priority": 0},
        {"name": other, "description": None, "priority": 0},
    ]
    found = made(await web.get(f"/v1/capabilities/{name}/agents"))
    assert [(agent["agent_id"], agent["priority"]) for agent in found] == [(bob.id, 5), (ada.id, 0)]
    assert all(agent["available"] and agent["active_runs"] == 0 for agent in found)
    listed = {
        each["name"]: each["agents"] for each in made(await web.get("/v1/capabilities?limit=1000"))
    }
    assert (listed[name], listed[other]) == (2, 1)

    async def ids(**query: Any) -> set[str]:
        return {agent["id"] for agent in made(await web.get("/v1/agents", params=query))}

    assert await ids(capability=name) == {ada.id, bob.id}
    assert await ids(capability=name, tags=["team"]) == {ada.id}
    assert await ids(capability=name, name=bob.name) == {bob.id}

    fields = {"description": "Sums and means", "priority": 9}
    declared = made(await web.put(f"/v1/agents/{ada.id}/capabilities/{name}", json=fields))
    assert declared == {"agent_id": ada.id, "name": name, **fields}
    assert made(await web.get(f"/v1/capabilities/{name}/agents"))[0]["agent_id"] == ada.id
    made(await web.delete(f"/v1/agents/{ada.id}/capabilities/{name}"))
    assert await ids(capability=name) == {bob.id}
    assert (
        "declares no capability"
        in made(await web.delete(f"/v1/agents/{ada.id}/capabilities/{name}"), 404)["detail"]
    )
    made(await web.patch(f"/v1/agents/{ada.id}", json={"capabilities": [name]}))
    assert await ids(capability=name) == {ada.id, bob.id}
    made(await web.delete(f"/v1/agents/{bob.id}"))
    made(await web.patch(f"/v1/agents/{ada.id}", json={"capabilities": []}))
    made(await web.get(f"/v1/capabilities/{name}/agents"), 404)


async def test_a_message_goes_to_an_agent_that_can_and_its_delivery_is_logged(
    web: httpx.AsyncClient, letta: Letta, new_agent: NewAgent
) -> None:
    name = unique("translate")
    new_agent(**can(name))
    best = new_agent(**with_priority(name, 10))

    answer = made(
        await web.post(f"/v1/capabilities/{name}/messages", json={"input": "SAY:Bonjour"})
    )
    assert texts(answer) == ["Bonjour"]
    assert answer["stop_reason"]["stop_reason"] == "end_turn"
    assert answer["usage"]["step_count"] == 1
    routed_to = answer["routed_to"]
    assert (routed_to["agent_id"], routed_to["attempts"]) == (best.id, 1)
    run = letta.runs.retrieve(routed_to["run_id"])
    assert run.metadata == {
        "run_type": "routed_message",
        "routed_message_id": routed_to["routed_message_id"],
        "purpose": "answer",
    }
    log = made(await web.get(f"/v1/routing/messages/{routed_to['routed_message_id']}"))
    assert (log["pattern"], log["status"], log["answers"]) == ("one", "completed", [1])
    [delivery] = log["deliveries"]
    assert (delivery["agent_id"], delivery["status"]) == (best.id, "delivered")
    assert log["id"] in [each["id"] for each in made(await web.get("/v1/routing/messages"))]

    later = made(
        await web.post(f"/v1/capabilities/{name}/messages/async", json={"input": "SAY:Hi"})
    )
    assert later["status"] in ("active", "completed")

    async def is_over() -> bool:
        path = f"/v1/routing/messages/{later['id']}"
        return bool(made(await web.get(path))["status"] == "completed")

    await wait_for("the message is answered", is_over)


async def test_a_message_fails_over_to_the_next_agent_where_the_model_of_the_first_one_fails(
    web: httpx.AsyncClient, new_agent: NewAgent, model: ScriptedModelProcess
) -> None:
    name, broken = unique("compute"), unique("broken")
    first = new_agent(**with_priority(name, 10, system=f"You are {broken}."))
    second = new_agent(**can(name))
    await model.refuse(broken)

    answer = made(await web.post(f"/v1/capabilities/{name}/messages", json={"input": "SAY:42"}))
    assert texts(answer) == ["42"]
    assert (answer["routed_to"]["agent_id"], answer["routed_to"]["attempts"]) == (second.id, 2)
    log = made(await web.get(f"/v1/routing/messages/{answer['routed_to']['routed_message_id']}"))
    assert [each["status"] for each in log["deliveries"]] == ["failed", "delivered"]
    assert (log["deliveries"][0]["agent_id"], log["answers"]) == (first.id, [2])
    assert "Its run is failed" in log["deliveries"][0]["error"]


async def test_the_next_agent_answers_where_the_first_one_is_deleted_while_it_does(
    web: httpx.AsyncClient, new_agent: NewAgent
) -> None:
    name = unique("proof")
    first = new_agent(**with_priority(name, 10))
    second = new_agent(**can(name))
    path = f"/v1/capabilities/{name}/messages"
    body = {"input": "SLOW:600000 SAY:late", "deadline_seconds": 60}
    waiting = asyncio.create_task(web.post(path, json=body))

    async def is_asked(agent_id: str) -> bool:
        runs = made(await web.get("/v1/runs", params={"agent_id": agent_id}))
        return any(run["status"] == "running" for run in runs)

    await wait_for("the first one is asked", lambda: is_asked(first.id))
    made(await web.delete(f"/v1/agents/{first.id}"))
    await wait_for("the second one is asked", lambda: is_asked(second.id))
    made(await web.delete(f"/v1/agents/{second.id}"))
    problem = made(await waiting, 503)
    log = problem["routed_message"]["deliveries"]
    assert [each["agent_id"] for each in log] == [first.id, second.id]
    assert [each["status"] for each in log] == ["failed", "failed"]


async def test_an_agent_that_is_free_goes_before_one_that_is_busy(
    web: httpx.AsyncClient, new_agent: NewAgent, letta: Letta
) -> None:
    name = unique("cook")
    busy, free = new_agent(**with_priority(name, 10)), new_agent(**can(name))
    letta.agents.messages.create_async(busy.id, messages=says("SLOW:600000"))

    found = made(await web.get(f"/v1/capabilities/{name}/agents"))
    assert [(each["agent_id"], each["available"]) for each in found] == [
        (free.id, True),
        (busy.id, False),
    ]
    path = f"/v1/capabilities/{name}/messages"
    answer = made(await web.post(path, json={"input": "SAY:Soup"}))
    assert answer["routed_to"]["agent_id"] == free.id


async def test_the_same_key_is_the_same_message(
    web: httpx.AsyncClient, new_agent: NewAgent
) -> None:
    name = unique("once")
    agent = new_agent(**can(name))
    path, headers = f"/v1/capabilities/{name}/messages", {"idempotency-key": unique("key")}
    answers = [
        made(await web.post(path, json={"input": "SAY:Hi"}, headers=headers)) for _ in range(2)
    ]
    assert answers[0] == answers[1]
    assert len(made(await web.get("/v1/runs", params={"agent_id": agent.id}))) == 1


async def test_where_nobody_can_and_where_nobody_is_available_are_told_apart(
    web: httpx.AsyncClient, new_agent: NewAgent, model: ScriptedModelProcess
) -> None:
    name, broken = unique("paint"), unique("broken")
    path = f"/v1/capabilities/{name}/messages"
    nobody = made(await web.post(path, json={"input": "hi"}), 404)
    assert nobody["detail"] == f"No agent declares the capability '{name}'"

    agent = new_agent(**can(name, system=f"You are {broken}."))
    await model.refuse(broken)
    refused = await web.post(path, json={"input": "hi"})
    problem = made(refused, 503)
    assert "No agent that could answer is available" in problem["detail"]
    assert agent.id in problem["detail"]
    assert problem["routed_message"]["status"] == "failed"
    assert refused.headers["x-should-retry"] == "false"
    made(await web.delete(f"/v1/agents/{agent.id}"))
    made(await web.post(path, json={"input": "hi"}), 404)


async def test_all_are_asked_at_once_and_a_part_that_fails_is_shown(
    web: httpx.AsyncClient, new_agent: NewAgent, model: ScriptedModelProcess
) -> None:
    tag, broken = unique("panel"), unique("broken")
    good = [new_agent(tags=[tag]), new_agent(tags=[tag])]
    bad = new_agent(tags=[tag], system=f"You are {broken}.")
    await model.refuse(broken)
    wanted = {"pattern": "scatter_gather", "tags": [tag], "input": "SAY:aye"}

    answer = made(await web.post("/v1/routing/messages", json=wanted), 207)
    by_agent = {each["agent_id"]: each for each in answer["deliveries"]}
    assert answer["status"] == "completed"
    assert {agent.id for agent in good} | {bad.id} == set(by_agent)
    assert [texts(by_agent[agent.id]) for agent in good] == [["aye"], ["aye"]]
    assert by_agent[bad.id]["status"] == "failed"
    assert "Its run is failed" in by_agent[bad.id]["error"]
    made(await web.delete(f"/v1/agents/{bad.id}"))
    made(await web.post("/v1/routing/messages", json=wanted))


async def test_what_does_not_answer_in_time_is_left_out(
    web: httpx.AsyncClient, new_agent: NewAgent, letta: Letta
) -> None:
    agent = new_agent()
    wanted = {"pattern": "scatter_gather", "agent_ids": [agent.id], "deadline_seconds": 1}
    late = made(await web.post("/v1/routing/messages", json={**wanted, "input": "HANG"}), 503)
    assert "No agent answered in time" in late["detail"]
    [delivery] = late["routed_message"]["deliveries"]
    assert letta.runs.retrieve(delivery["run_id"]).status == "cancelled"


async def test_what_is_published_starts_a_run_in_each_subscriber(
    heeler: HeelerInstance, web: httpx.AsyncClient, letta: Letta, new_agent: NewAgent
) -> None:
    topic = unique("news")
    wanted = {"pattern": "publish", "topic": topic, "input": "SAY:heard"}
    made(await web.post("/v1/routing/messages", json=wanted), 404)
    agents = [new_agent(), new_agent()]
    for agent in agents:
        subscribed = made(await web.put(f"/v1/topics/{topic}/subscribers/{agent.id}"))
        assert subscribed == {"topic": topic, "agent_id": agent.id}
        made(await web.put(f"/v1/topics/{topic}/subscribers/{agent.id}"))
    assert {"name": topic, "subscribers": 2} in made(await web.get("/v1/topics"))
    shown = made(await web.get(f"/v1/topics/{topic}/subscribers"))
    assert [each["agent_id"] for each in shown] == [agent.id for agent in agents]

    answer = made(await web.post("/v1/routing/messages", json=wanted))
    assert {each["agent_id"] for each in answer["deliveries"]} == {agent.id for agent in agents}
    for delivery in answer["deliveries"]:

        def has_heard(run_id: str = delivery["run_id"]) -> bool:
            return letta.runs.retrieve(run_id).status == "completed"

        await wait_for("the subscriber has heard", has_heard)

    made(await web.delete(f"/v1/agents/{agents[0].id}"))
    left = made(await web.get(f"/v1/topics/{topic}/subscribers"))
    assert [each["agent_id"] for each in left] == [agents[1].id]
    rows = f"select agent_id from groups.subscribers where topic = '{topic}'"
    await wait_for("the subscription goes", lambda: heeler.psql(rows) == [(agents[1].id,)])
    made(await web.delete(f"/v1/topics/{topic}/subscribers/{agents[1].id}"))
    made(await web.delete(f"/v1/topics/{topic}/subscribers/{agents[1].id}"), 404)
    made(await web.get(f"/v1/topics/{topic}/subscribers"), 404)
    nobody = f"/v1/topics/{topic}/subscribers/agent-{NOBODY}"
    assert "not found" in made(await web.put(nobody), 404)["detail"]


async def test_in_a_pipeline_each_agent_gets_what_the_one_before_it_has_answered(
    web: httpx.AsyncClient, letta: Letta, new_agent: NewAgent
) -> None:
    first, second, third = unique("draft"), unique("edit"), unique("print")
    new_agent(**can(first))
    middle, last = new_agent(**can(second)), new_agent(**can(third))
    wanted = {"pattern": "pipeline", "capabilities": [first, second, third]}

    answer = made(
        await web.post("/v1/routing/messages", json={**wanted, "input": "SAY:SAY:SAY:done"})
    )
    assert texts(answer) == ["done"]
    assert [each["stage"] for each in answer["deliveries"]] == [0, 1, 2]
    assert answer["routed_to"]["agent_id"] == last.id
    heard = [
        message.content
        for message in letta.agents.messages.list(middle.id).items
        if message.message_type == "user_message"
    ]
    assert "SAY:SAY:done" in heard
    twice = {"pattern": "pipeline", "agent_ids": [last.id, last.id], "input": "hi"}
    assert "loop" in made(await web.post("/v1/routing/messages", json=twice), 422)["detail"]


async def test_the_best_bid_gets_the_task_and_the_others_are_told(
    web: httpx.AsyncClient, new_agent: NewAgent, model: ScriptedModelProcess, letta: Letta
) -> None:
    name, broken = unique("haul"), unique("broken")
    dear = new_agent(**can(name, system="BID: 30"))
    cheap = new_agent(**can(name, system="BID: 20"))
    tied = new_agent(**can(name, system="BID: 20.0"))
    too_cheap = new_agent(**can(name, system="BID: 1"))
    silent = new_agent(**can(name, system="I do not bid."))
    gone = new_agent(**can(name, system=f"BID: 15 {broken}"))
    await model.refuse(broken)
    wanted = {"pattern": "contract_net", "capability": name, "input": "SYSTEM?"}

    answer = made(
        await web.post("/v1/routing/messages", json={**wanted, "award": {"at_least": 10}})
    )
    bids = {d["agent_id"]: d for d in answer["deliveries"] if d["purpose"] == "bid"}
    [award] = [d for d in answer["deliveries"] if d["purpose"] == "award"]
    told = {d["agent_id"] for d in answer["deliveries"] if d["purpose"] == "notice"}
    ties = sorted((bids[agent.id]["number"], agent.id) for agent in (cheap, tied))
    assert award["agent_id"] == answer["routed_to"]["agent_id"] == ties[0][1]
    assert told == {dear.id, too_cheap.id, ties[1][1]}
    assert (bids[silent.id]["status"], bids[silent.id]["bid"]) == ("delivered", None)
    assert bids[gone.id]["status"] == "failed"
    assert bids[dear.id]["bid"] == 30.0
    assert made(await web.get(f"/v1/routing/messages/{answer['id']}"))["answers"] == [
        award["number"]
    ]

    none = {**wanted, "award": {"at_least": 1000}}
    assert (
        "made a valid bid" in made(await web.post("/v1/routing/messages", json=none), 503)["detail"]
    )
    highest = {**wanted, "award": {"prefer": "highest"}, "tell_losers": False}
    answer = made(await web.post("/v1/routing/messages", json=highest))
    assert answer["routed_to"]["agent_id"] == dear.id
    assert {d["purpose"] for d in answer["deliveries"]} == {"bid", "award"}


async def test_a_bidder_that_says_nothing_does_not_keep_the_task_from_the_best_bid(
    web: httpx.AsyncClient, new_agent: NewAgent, letta: Letta
) -> None:
    name = unique("haul")
    silent, bidder = new_agent(**can(name)), new_agent(**can(name))
    letta.agents.messages.create_async(silent.id, messages=says("SLOW:600000"))
    body = {"pattern": "contract_net", "capability": name, "input": "SAY:BID: 7"}
    answer = made(await web.post("/v1/routing/messages", json={**body, "deadline_seconds": 24}))
    log = {(each["agent_id"], each["purpose"]): each["status"] for each in answer["deliveries"]}
    assert log == {
        (silent.id, "bid"): "failed",
        (bidder.id, "bid"): "delivered",
        (bidder.id, "award"): "delivered",
    }
    assert answer["routed_to"]["agent_id"] == bidder.id


async def test_a_request_that_cannot_be_routed_says_which_field_is_wrong(
    web: httpx.AsyncClient, new_agent: NewAgent
) -> None:
    agent = new_agent()

    async def refusal(status: int = 422, **body: Any) -> str:
        answer = await web.post("/v1/routing/messages", json={"input": "hi", **body})
        return str(made(answer, status)["detail"])

    before = made(await web.get("/v1/routing/messages"))
    assert "exactly one of" in await refusal()
    assert "`capability` and `topic`" in await refusal(capability="a", topic="b")
    assert "`capabilities`" in await refusal(capabilities=["a"])
    assert "pattern" in await refusal(pattern="auction", capability="a")
    assert "needs its stages" in await refusal(pattern="pipeline", capability="a")
    assert "at_least" in await refusal(
        pattern="contract_net", capability="a", award={"at_least": 2, "at_most": 1}
    )
    unknown = [agent.id, f"agent-{NOBODY}"]
    assert NOBODY in await refusal(404, pattern="scatter_gather", agent_ids=unknown)
    assert "caller_run_id" in await refusal(
        404, agent_ids=[agent.id], caller_run_id=f"run-{NOBODY}"
    )
    assert "deadline_seconds" in await refusal(agent_ids=[agent.id], deadline_seconds=0)
    assert "messages" in await refusal(agent_ids=[agent.id], messages=says("hi"))
    bad_name = await web.put(f"/v1/agents/{agent.id}/capabilities/a%0Ab")
    assert "capability" in made(bad_name, 422)["detail"]
    for path in ("capabilities/%00/messages", "capabilities/%00/messages/async"):
        bad_name = await web.post(f"/v1/{path}", json={"input": "hi"})
        assert "capability" in made(bad_name, 422)["detail"]
    for path, field in (
        ("capabilities/%00/agents", "capability"),
        ("topics/%00/subscribers", "topic"),
    ):
        assert field in made(await web.get(f"/v1/{path}"), 422)["detail"]
    twice = {"capabilities": ["a", "a"]}
    assert "twice" in str(made(await web.patch(f"/v1/agents/{agent.id}", json=twice), 422))
    many = {"capabilities": [f"c{number}" for number in range(65)]}
    assert "capabilities" in str(made(await web.patch(f"/v1/agents/{agent.id}", json=many), 422))
    assert made(await web.get("/v1/routing/messages")) == before


TOOL = "send_message_to_capability"


def asks(capability: str, message: str = "Hi") -> str:
    """What the user says to have an agent write to whoever can."""
    return tool_call(TOOL, capability=capability, message=message)


async def test_an_agent_writes_to_whoever_can_and_reads_the_answer(
    web: httpx.AsyncClient, new_agent: NewAgent, letta: Letta
) -> None:
    name = unique("colour")
    ada, bob = new_agent(tools=[TOOL]), new_agent(**can(name))

    heard = letta.agents.messages.create(ada.id, messages=says(asks(name, "Is it red?")))
    result = tool_return(heard.messages)
    assert (result.status, result.name) == ("success", TOOL)
    assert literal_eval(result.tool_return) == {"agent_id": bob.id, "response": [HELLO]}
    asked = letta.agents.messages.list(bob.id, order="desc").items[1]
    assert asked.content == f"[Message from agent {ada.id}: your answer goes back to it] Is it red?"

    nobody = tool_return(letta.agents.messages.create(ada.id, messages=says(asks("x"))).messages)
    assert nobody.status == "error"
    assert "No agent declares the capability 'x'" in nobody.tool_return


def told_first(text: str) -> list[dict[str, str]]:
    """What stands first in an agent's history: the scripted model does what the last user said,
    and what is routed by the tool is a message of the system."""
    return [{"role": "user", "content": text}]


async def test_a_message_that_would_loop_is_refused_and_the_agent_is_told(
    new_agent: NewAgent, letta: Letta
) -> None:
    there, back = unique("there"), unique("back")
    ada = new_agent(**can(back, tools=[TOOL]))
    bob = new_agent(**can(there, tools=[TOOL], initial_message_sequence=told_first(asks(back))))

    heard = letta.agents.messages.create(ada.id, messages=says(asks(there)))
    result = tool_return(heard.messages)
    assert literal_eval(result.tool_return) == {"agent_id": bob.id, "response": [HELLO]}
    refused = tool_return(letta.agents.messages.list(bob.id).items)
    assert refused.status == "error"
    assert f"it would loop: {ada.id} -> {bob.id} -> {ada.id}" in refused.tool_return


async def test_no_more_than_eight_agents_in_a_row_write_to_each_other(
    new_agent: NewAgent, letta: Letta
) -> None:
    names = [unique("hop") for _ in range(HOPS_MAX + 2)]
    chain = [
        new_agent(**can(name, tools=[TOOL], initial_message_sequence=told_first(asks(following))))
        for name, following in pairwise(names)
    ]
    last = new_agent(**can(names[-1]))

    heard = letta.agents.messages.create(chain[0].id, messages=says(asks(names[1])))
    assert tool_return(heard.messages).status == "success"
    refused = tool_return(letta.agents.messages.list(chain[-1].id).items)
    assert refused.status == "error"
    assert f"{HOPS_MAX} times in a row" in refused.tool_return
    assert letta.runs.list(agent_id=last.id).items == []


async def test_a_message_whose_service_is_killed_while_the_agent_answers_is_answered_once(
    heeler: HeelerInstance, web: httpx.AsyncClient, new_agent: NewAgent, model: ScriptedModelProcess
) -> None:
    name = unique("slow")
    agents = [new_agent(**can(name)), new_agent(**can(name))]
    text = f"SLOW:1500 SAY:{name}"
    asked = asyncio.ensure_future(
        web.post(f"/v1/capabilities/{name}/messages", json={"input": text})
    )
    await model.wait_for_asked(text)
    heeler.wait_restarted("groups", heeler.kill9("groups"))

    answer = made(await asked)
    assert texts(answer) == [name]
    assert await model.answered(text) == {0: 1}
    runs = [
        run
        for agent in agents
        for run in made(await web.get("/v1/runs", params={"agent_id": agent.id}))
    ]
    assert [run["id"] for run in runs] == [answer["routed_to"]["run_id"]]


async def test_an_agent_of_another_organisation_is_never_found(
    heeler: HeelerInstance, web: httpx.AsyncClient, new_agent: NewAgent
) -> None:
    name, tag, topic = unique("secret"), unique("secret"), unique("secret")
    agent = new_agent(**can(name, tags=[tag]))
    made(await web.put(f"/v1/topics/{topic}/subscribers/{agent.id}"))
    async with api_of_two(heeler) as url, client_of(url, STRANGER) as stranger:

        async def is_listening() -> bool:
            try:
                return (await stranger.get("/v1/capabilities")).status_code == 200
            except httpx.ConnectError:
                return False

        await wait_for("the api", is_listening)
        for recipients in (
            {"capability": name},
            {"tags": [tag]},
            {"topic": topic},
            {"agent_ids": [agent.id]},
        ):
            wanted = {"input": "hi", **recipients}
            refused = made(await stranger.post("/v1/routing/messages", json=wanted), 404)
            assert refused["detail"].startswith("No agent"), refused
        made(await stranger.post(f"/v1/capabilities/{name}/messages", json={"input": "hi"}), 404)
        made(await stranger.get(f"/v1/capabilities/{name}/agents"), 404)
        assert name not in (await stranger.get("/v1/capabilities")).text
        made(await stranger.put(f"/v1/topics/{topic}/subscribers/{agent.id}"), 404)
    assert made(await web.get("/v1/runs", params={"agent_id": agent.id})) == []
