"""V1's batches: messages to many agents, each answered in its agent's own conversation."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.e2e.asking import HELLO, NOBODY, says, unique
from tests.e2e.conftest import NewAgent
from tests.scripted_model import ScriptedModelProcess
from tests.waiting import wait_for

PATH = "/v1/messages/batches"
CREATE = pytest.mark.operation("POST /v1/messages/batches")
RETRIEVE = pytest.mark.operation("GET /v1/messages/batches/{batch_id}")
LIST = pytest.mark.operation("GET /v1/messages/batches")
MESSAGES = pytest.mark.operation("GET /v1/messages/batches/{batch_id}/messages")
CANCEL = pytest.mark.operation("PATCH /v1/messages/batches/{batch_id}/cancel")
FIELDS = {
    *("id", "status", "created_at", "updated_at", "completed_at", "metadata", "job_type"),
    *("callback_url", "callback_sent_at", "callback_status_code", "callback_error", "ttft_ns"),
    *("total_duration_ns", "user_id", "organization_id", "created_by_id", "last_updated_by_id"),
    *("agent_id", "counts", "percentage", "failed_items"),  # which V1 lacks
}


async def ended(ahttp: httpx.AsyncClient, batch_id: str) -> dict[str, Any]:
    """The job once it has ended."""

    async def has_ended() -> bool:
        return (await ahttp.get(f"{PATH}/{batch_id}")).json()["completed_at"] is not None

    await wait_for("the batch has ended", has_ended)
    job: dict[str, Any] = (await ahttp.get(f"{PATH}/{batch_id}")).json()
    return job


@CREATE
@RETRIEVE
@MESSAGES
async def test_many_agents_answer_in_their_own_conversations(
    ahttp: httpx.AsyncClient, new_agent: NewAgent
) -> None:
    agents = [new_agent() for _ in range(3)]
    requests = [{"agent_id": agent.id, "messages": says("Hello")} for agent in agents]
    answer = await ahttp.post(
        PATH, json={"requests": [{**requests[0], "custom_id": "my-row"}, *requests[1:]]}
    )
    assert answer.status_code == 200, answer.text
    job = answer.json()
    assert job.keys() == FIELDS
    assert (job["job_type"], job["status"]) in (("batch", "created"), ("batch", "running"))
    after = await ended(ahttp, job["id"])
    assert after["status"] == "completed"
    assert after["total_duration_ns"] > 0
    assert (after["percentage"], after["counts"]["completed"]) == (100, 3)
    assert (after["agent_id"], after["failed_items"]) == (None, [])
    for agent in agents:
        said = (await ahttp.get(f"/v1/agents/{agent.id}/messages")).json()
        assert [m["content"] for m in said if m["message_type"] == "assistant_message"] == [HELLO]
    path = f"{PATH}/{job['id']}/messages"
    messages = (await ahttp.get(path, params={"order": "asc"})).json()["messages"]
    assert len(messages) == 6
    assert {message["agent_id"] for message in messages} == {agent.id for agent in agents}
    assert {message["role"] for message in messages} == {"user", "assistant"}
    assert all(message["batch_item_id"] for message in messages)
    named = {message["agent_id"]: message.get("custom_id") for message in messages}
    assert [named[agent.id] for agent in agents] == ["my-row", None, None]
    one = (await ahttp.get(path, params={"agent_id": agents[0].id, "order": "asc"})).json()[
        "messages"
    ]
    assert [(m["role"], m["content"][0]["text"]) for m in one] == [
        ("user", "Hello"),
        ("assistant", HELLO),
    ]
    rest = (await ahttp.get(path, params={"order": "asc", "after": messages[1]["id"]})).json()[
        "messages"
    ]
    assert rest == messages[2:]
    newest = (await ahttp.get(path, params={"limit": 2})).json()["messages"]
    assert newest == messages[:-3:-1]


@LIST
@CANCEL
async def test_batches_that_have_not_ended_are_listed_and_can_be_cancelled(
    ahttp: httpx.AsyncClient, new_agent: NewAgent, model: ScriptedModelProcess
) -> None:
    agents, word = [new_agent() for _ in range(7)], unique("hang")
    requests = [
        {"agent_id": agent.id, "messages": says(f"HANG {word} {number}")}
        for number, agent in enumerate(agents)
    ]
    batch_id = (await ahttp.post(PATH, json={"requests": requests})).json()["id"]
    for number in range(5):
        await model.wait_for_asked(f"HANG {word} {number}")
    assert batch_id in [job["id"] for job in (await ahttp.get(PATH)).json()]
    assert (await ahttp.patch(f"{PATH}/{batch_id}/cancel")).status_code == 200
    after = await ended(ahttp, batch_id)
    assert after["status"] == "cancelled"
    assert batch_id not in [job["id"] for job in (await ahttp.get(PATH)).json()]
    for number in (5, 6):
        assert await model.asked(f"HANG {word} {number}") == {}


@CREATE
async def test_a_v1_batch_is_refused_as_a_whole(
    ahttp: httpx.AsyncClient, new_agent: NewAgent
) -> None:
    good = {"agent_id": new_agent().id, "messages": says("Hello")}
    unknown = {"agent_id": f"agent-{NOBODY}", "messages": says("Hello")}

    async def refusal(status: int, *requests: Any) -> str:
        answer = await ahttp.post(PATH, json={"requests": requests})
        assert answer.status_code == status, answer.text
        return str(answer.json()["detail"])

    assert "requests[1].agent_id" in await refusal(404, good, unknown)
    assert "`requests[1]" in await refusal(422, good, {**good, "agent_id": "nonsense"})
    assert "`requests[1]" in await refusal(422, good, {"agent_id": good["agent_id"]})
    assert "requests" in await refusal(422, *[good] * 101)
    assert (await ahttp.get(f"{PATH}/batch-{NOBODY}")).status_code == 404
    assert (await ahttp.get(f"{PATH}/batch-{NOBODY}/messages")).status_code == 404
    assert (await ahttp.patch(f"{PATH}/batch-{NOBODY}/cancel")).status_code == 404
