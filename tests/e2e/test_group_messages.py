"""Messages to groups over HTTP: every type of manager, refusals, streams, transcripts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from libs.contracts.groups.group_runs import GROUP_REQUEST_BYTES_MAX
from services.api.resources.groups.group_messages import PAGE_BYTES_MAX
from tests.e2e.asking import unique
from tests.e2e.conftest import NewAgent
from tests.scripted_model import ScriptedModelProcess
from tests.waiting import wait_for

NO_GROUP = "group-00000000-0000-4000-8000-000000000000"
NO_RUN = "group_run-00000000-0000-4000-8000-000000000000"
HAND_OVER, ASK = "hand_over", "send_message_to_group_members"

type NewGroup = Callable[..., dict[str, Any]]


@pytest.fixture
def new_group(http: httpx.Client) -> NewGroup:
    """Makes a group of agents."""

    def make(agent_ids: list[str], path: str = "/v1/agent-groups", **fields: Any) -> dict[str, Any]:
        body = {"description": unique("group"), "agent_ids": agent_ids, **fields}
        answer = http.post(path, json=body)
        assert answer.status_code == 200, answer.text
        group: dict[str, Any] = answer.json()
        return group

    return make


@pytest.fixture
def crew(new_agent: NewAgent) -> list[Any]:
    """Alice, Bob and Carol."""
    return [
        new_agent(name=unique(name), memory_blocks=[], description=f"{name} helps")
        for name in ("Alice", "Bob", "Carol")
    ]


def ids_of(agents: list[Any]) -> list[str]:
    return [agent.id for agent in agents]


def send(http: httpx.Client, group: dict[str, Any], text: str, **fields: Any) -> dict[str, Any]:
    """What the members answer to one message."""
    body = {"messages": [{"role": "user", "content": text}], **fields}
    answer = http.post(f"/v1/groups/{group['id']}/messages", json=body)
    assert answer.status_code == 200, answer.text
    said: dict[str, Any] = answer.json()
    return said


def until(what: str, ask: Callable[[], Any]) -> Any:
    """The first truthy answer."""
    return asyncio.run(wait_for(what, ask))


def spoken(answer: dict[str, Any]) -> list[tuple[str, str]]:
    """Who said what."""
    return [
        (message["name"], message["content"])
        for message in answer["messages"]
        if message["message_type"] == "assistant_message"
    ]


def test_members_answer_in_turn_and_each_sees_what_was_said_since(
    http: httpx.Client, new_group: NewGroup, crew: list[Any]
) -> None:
    group = new_group(ids_of(crew))
    mark = unique("mark")
    answer = send(http, group, f"SAY:SAY:SAY:{mark}")
    alice, bob, carol = (agent.name for agent in crew)
    bob_id = crew[1].id
    assert spoken(answer) == [
        (alice, f"SAY:SAY:{mark}"),
        (bob, f"SAY:{mark}"),
        (carol, mark),
    ]
    assert [message["sender_id"] for message in answer["messages"]] == ids_of(crew)
    assert answer["stop_reason"]["stop_reason"] == "end_turn"
    assert len(answer["usage"]["run_ids"]) == 3
    assert answer["usage"]["step_count"] == 3
    assert answer["usage"]["total_tokens"] > 0
    runs = http.get("/v1/runs/", params={"group_id": group["id"]}).json()
    assert {run["id"] for run in runs} == set(answer["usage"]["run_ids"])
    heard = http.get(f"/v1/agents/{bob_id}/messages").json()
    [from_alice] = [each for each in heard if each.get("sender_id") == crew[0].id]
    assert (from_alice["name"], from_alice["group_id"]) == (alice, group["id"])
    own = http.get(f"/v1/agents/{crew[0].id}/messages", params={"conversation_id": "default"})
    assert mark not in own.text, "a member's own conversation holds nothing of the group"


def test_a_supervisor_asks_the_members_with_a_tool_and_answers(
    http: httpx.Client, new_group: NewGroup, crew: list[Any]
) -> None:
    boss, alice, bob = crew
    manager = {"manager_type": "supervisor", "manager_agent_id": boss.id}
    group = new_group([alice.id, bob.id], manager_config=manager)
    answer = send(http, group, f'CALL:{ASK}:{{"message": "SAY:aye"}} SAY:all agree')
    assert spoken(answer) == [(alice.name, "aye"), (bob.name, "aye"), (boss.name, "all agree")]
    [asked] = [each for each in answer["messages"] if each["message_type"].startswith("approval_r")]
    assert asked["tool_calls"][0]["name"] == ASK
    assert [hop["name"] for hop in answer["hops"]] == [boss.name, alice.name, bob.name, boss.name]


def test_a_dynamic_manager_picks_and_falls_back_and_ends_with_its_token(
    http: httpx.Client, new_group: NewGroup, crew: list[Any]
) -> None:
    boss, alice, bob = crew
    manager = {"manager_type": "dynamic", "manager_agent_id": boss.id, "max_turns": 2}
    group = new_group([alice.id, bob.id], manager_config=manager)
    answer = send(http, group, f"SAY:{bob.name}")
    # The manager picks Bob; then it names nobody twice, and the rotation goes on with Alice.
    purposes = [(hop["name"], hop["purpose"]) for hop in answer["hops"]]
    assert purposes == [
        (boss.name, "pick"),
        (bob.name, "answer"),
        (boss.name, "pick"),
        (boss.name, "pick"),
        (alice.name, "answer"),
    ]
    assert [name for name, _ in spoken(answer)] == [bob.name, alice.name]
    assert spoken(send(http, group, "SAY:DONE!")) == []


def test_a_swarm_hands_over_by_a_tool_and_goes_on_where_it_was(
    http: httpx.Client, new_group: NewGroup, crew: list[Any]
) -> None:
    alice, _, carol = crew
    group = new_group(ids_of(crew), manager_config={"manager_type": "swarm"})
    over = json.dumps({"agent_name": carol.name, "message": "SAY:mine now"})
    assert spoken(send(http, group, f"CALL:{HAND_OVER}:{over}")) == [(carol.name, "mine now")]
    assert spoken(send(http, group, "SAY:still mine")) == [(carol.name, "still mine")]
    back = json.dumps({"agent_name": alice.name, "message": "SAY:back"})
    assert spoken(send(http, group, f"CALL:{HAND_OVER}:{back}")) == [(alice.name, "back")]


def test_a_model_picks_one_member(http: httpx.Client, new_group: NewGroup, crew: list[Any]) -> None:
    group = new_group(ids_of(crew), manager_config={"manager_type": "intelligent"})
    answer = send(http, group, "SAY:who fits")
    [(name, text)] = spoken(answer)
    assert name in [agent.name for agent in crew]
    assert text == "who fits"


def test_the_manager_of_a_sleeptime_group_answers(
    http: httpx.Client, new_group: NewGroup, crew: list[Any]
) -> None:
    boss, *others = crew
    manager = {
        "manager_type": "sleeptime",
        "manager_agent_id": boss.id,
        "sleeptime_agent_frequency": 5,
    }
    group = new_group(ids_of(others), "/v1/groups", manager_config=manager)
    assert spoken(send(http, group, "SAY:awake")) == [(boss.name, "awake")]


def test_a_hundred_members_answer_a_broadcast(
    http: httpx.Client, new_group: NewGroup, new_agent: NewAgent
) -> None:
    with ThreadPoolExecutor(8) as pool:
        agents = list(pool.map(lambda _: new_agent(memory_blocks=[]), range(100)))
    group = new_group(ids_of(agents), manager_config={"manager_type": "broadcast"})
    answer = send(http, group, "SAY:here")
    assert sorted(message["sender_id"] for message in answer["messages"]) == sorted(ids_of(agents))
    assert {message["content"] for message in answer["messages"]} == {"here"}
    assert len(answer["usage"]["run_ids"]) == 100


def test_what_one_member_cannot_answer_is_shown_and_keeps_no_other_from_it(
    http: httpx.Client, new_group: NewGroup, crew: list[Any], new_agent: NewAgent
) -> None:
    broken = new_agent(name=unique("Broken"), memory_blocks=[])
    http.patch(f"/v1/agents/{broken.id}", json={"max_tokens": 1, "system": "FAIL"})
    group = new_group([crew[0].id, broken.id], manager_config={"manager_type": "broadcast"})
    http.delete(f"/v1/agents/{broken.id}")
    answer = send(http, group, "SAY:here")
    assert spoken(answer) == [(crew[0].name, "here")]


def test_fifty_groups_of_the_same_agents_answer_at_once(
    http: httpx.Client, new_group: NewGroup, crew: list[Any]
) -> None:
    groups = [new_group(ids_of(crew[:2])) for _ in range(50)]
    with ThreadPoolExecutor(50) as pool:
        answers = list(
            pool.map(
                lambda group: send(http, group, f"SAY:SAY:{group['id']}"),
                groups,
            )
        )
    for group, answer in zip(groups, answers, strict=True):
        assert spoken(answer)[-1] == (crew[1].name, group["id"])


def test_three_agents_solve_a_task_together(
    http: httpx.Client, new_group: NewGroup, crew: list[Any]
) -> None:
    """A planner asks a researcher and a writer, and puts together what they found; then the
    transcript tells the whole story."""
    planner, researcher, writer = crew
    manager = {"manager_type": "supervisor", "manager_agent_id": planner.id}
    group = new_group(
        [researcher.id, writer.id],
        manager_config=manager,
        shared_state={"topic": "tides"},
    )
    to_researcher = json.dumps(
        {"message": "SAY:The moon pulls the sea.", "agent_names": [researcher.name]}
    )
    to_writer = json.dumps(
        {"message": "SAY:Twice a day the sea answers the moon.", "agent_names": [writer.name]}
    )
    answer = send(
        http,
        group,
        f"CALL:{ASK}:{to_researcher} CALL:{ASK}:{to_writer} SAY:Here is the text, with its source.",
    )
    assert spoken(answer) == [
        (researcher.name, "The moon pulls the sea."),
        (writer.name, "Twice a day the sea answers the moon."),
        (planner.name, "Here is the text, with its source."),
    ]
    transcript = http.get(f"/v1/groups/{group['id']}/messages").json()
    assert [message["name"] for message in transcript] == [
        None, planner.name, researcher.name, planner.name, writer.name, planner.name,
    ]  # fmt: skip
    assert {message["group_id"] for message in transcript} == {group["id"]}


async def test_private_messages_are_in_no_other_members_context(
    http: httpx.Client, new_group: NewGroup, crew: list[Any], model: ScriptedModelProcess
) -> None:
    alice, bob, carol = crew
    group = new_group(ids_of(crew))
    secret, public = unique("secret"), unique("public")

    def say(text: str, **fields: Any) -> dict[str, Any]:
        return send(http, group, text, **fields)

    private = await asyncio.to_thread(say, f"SAY:{secret}", recipients=[bob.id])
    assert spoken(private) == [(bob.name, secret)]
    await asyncio.to_thread(say, public)
    requests = [request["messages"] for request in await model.requests(last=50)]
    for agent in (alice, bob, carol):
        shown = [
            json.dumps(messages)
            for messages in requests
            if f"You are {agent.name}." in json.dumps(messages)
        ]
        assert any(public in messages for messages in shown)
        assert any(secret in messages for messages in shown) == (agent is bob)
    path = f"/v1/groups/{group['id']}/messages"
    for agent in (alice, bob):
        seen = await asyncio.to_thread(http.get, path, params={"agent_id": agent.id})
        assert (secret in seen.text) == (agent is bob)
        assert public in seen.text


def test_a_stream_shows_each_member_as_it_ends(
    http: httpx.Client, new_group: NewGroup, crew: list[Any]
) -> None:
    group = new_group(ids_of(crew[:2]))
    body = {"messages": [{"role": "user", "content": "SAY:SAY:two"}]}
    answer = http.post(f"/v1/agent-groups/{group['id']}/messages/stream", json=body)
    assert answer.status_code == 200
    assert answer.text.endswith("data: [DONE]\n\n")
    events = [json.loads(line[6:]) for line in answer.text.split("\n\n") if line[6:7] == "{"]
    assert [event["message_type"] for event in events] == [
        "ping", "assistant_message", "assistant_message", "stop_reason", "usage_statistics",
    ]  # fmt: skip
    assert [event["name"] for event in events[1:3]] == [agent.name for agent in crew[:2]]
    assert events[0]["run_id"].startswith("group_run-")
    again = http.post(f"/v1/groups/{group['id']}/messages", json={**body, "streaming": True})
    assert again.headers["content-type"].startswith("text/event-stream")


def test_a_message_is_answered_later_and_its_run_tells_how(
    http: httpx.Client, new_group: NewGroup, crew: list[Any]
) -> None:
    group = new_group(ids_of(crew[:1]))
    path = f"/v1/groups/{group['id']}"
    body = {"input": "SAY:later", "metadata": {"ticket": "7"}}
    started = http.post(f"{path}/messages/async", json=body).json()
    assert started["group_id"] == group["id"]

    def ended() -> dict[str, Any]:
        run: dict[str, Any] = http.get(f"{path}/runs/{started['id']}").json()
        return run if run["status"] == "completed" else {}

    run = until("the end of the run", ended)
    assert run["metadata"] == {"ticket": "7"}
    assert [(hop["name"], hop["status"]) for hop in run["hops"]] == [(crew[0].name, "completed")]
    assert [each["id"] for each in http.get(f"{path}/runs").json()] == [started["id"]]
    assert http.get(f"{path}/runs", params={"status": "running"}).json() == []


def test_the_same_request_under_the_same_key_is_the_same_run(
    http: httpx.Client, new_group: NewGroup, crew: list[Any]
) -> None:
    group = new_group(ids_of(crew[:1]))
    path, headers = f"/v1/groups/{group['id']}/messages", {"Idempotency-Key": unique("key")}
    first, second = (
        http.post(path, json={"input": "SAY:once"}, headers=headers).json() for _ in range(2)
    )
    assert first["group_run_id"] == second["group_run_id"]
    assert len(http.get(path).json()) == 2
    other = http.post(path, json={"input": "SAY:twice"}, headers=headers)
    assert other.status_code == 409


@pytest.mark.operation("GET /v1/groups/{group_id}/messages")
@pytest.mark.operation("PATCH /v1/groups/{group_id}/messages/{message_id}")
@pytest.mark.operation("PATCH /v1/groups/{group_id}/reset-messages")
def test_transcripts_are_listed_edited_and_reset(
    http: httpx.Client, new_group: NewGroup, crew: list[Any]
) -> None:
    group = new_group(ids_of(crew[:2]), "/v1/groups")
    path = f"/v1/groups/{group['id']}/messages"
    for text in ("one", "two"):
        send(http, group, f"SAY:{text}")
    listed = http.get(path).json()
    assert len(listed) == 6
    assert [each["message_type"] for each in listed[:2]] == ["user_message", "assistant_message"]
    newest = http.get(path, params={"order": "desc", "limit": 2}).json()
    assert [each["id"] for each in newest] == [each["id"] for each in listed[:3:-1]]
    after = http.get(path, params={"after": listed[3]["id"]}).json()
    assert [each["id"] for each in after] == [each["id"] for each in listed[4:]]
    users = http.get(path, params={"include_return_message_types": ["user_message"]}).json()
    assert [each["content"] for each in users] == ["SAY:one", "SAY:two"]
    edited = http.patch(f"{path}/{listed[-1]['id']}", json={"content": "SAY:better"})
    assert edited.json()["content"] == "SAY:better"
    assert http.get(path).json()[-1]["content"] == "SAY:better"
    # Alice has not seen what Bob said last.
    private = send(http, group, "SAY:and you", recipients=[crew[0].id])
    assert spoken(private)[0][1] == "and you"
    assert http.patch(f"/v1/groups/{group['id']}/reset-messages").status_code == 200
    assert http.get(path).json() == []
    assert spoken(send(http, group, "SAY:anew"))[0] == (crew[0].name, "anew")
    assert len(http.get(path).json()) == 3


def test_what_cannot_be_answered_is_refused_and_leaves_nothing(
    http: httpx.Client, new_group: NewGroup, crew: list[Any]
) -> None:
    group = new_group(ids_of(crew[:1]))
    path, hello = f"/v1/groups/{group['id']}/messages", {"input": "Hello"}
    unknown = http.post(f"/v1/groups/{NO_GROUP}/messages", json=hello)
    assert (unknown.status_code, unknown.json()["detail"]) == (
        404,
        f"Group with ID {NO_GROUP} not found",
    )
    assert http.post("/v1/groups/nonsense/messages", json=hello).status_code == 422
    long = http.post(path, json={"input": "x" * (GROUP_REQUEST_BYTES_MAX + 1)})
    assert (long.status_code, "`messages` are too long" in long.text) == (413, True)
    stranger = http.post(path, json={**hello, "recipients": [crew[1].id]})
    assert (stranger.status_code, f"`recipients`: {crew[1].id}" in stranger.text) == (400, True)
    assert http.post(path, json={"messages": []}).status_code == 422
    assert http.post(path, json={**hello, "max_steps": 0}).status_code == 422
    assert http.post(path, json={}).status_code == 422
    empty = new_group([])
    nobody = http.post(f"/v1/groups/{empty['id']}/messages", json=hello)
    assert (nobody.status_code, "has no members" in nobody.text) == (400, True)
    assert http.get(f"/v1/groups/{group['id']}/runs/{NO_RUN}").status_code == 404
    assert http.post(f"{path}/cancel").status_code == 409
    message_id = "message-00000000-0000-4000-8000-000000000000"
    assert http.patch(f"{path}/{message_id}", json={"content": "x"}).status_code == 404
    assert http.get(path).json() == []
    assert http.get(f"/v1/groups/{group['id']}/runs").json() == []


def slow_run(http: httpx.Client, group: dict[str, Any]) -> str:
    """A run in which the second member does not come to its end; returns its id."""
    path = f"/v1/groups/{group['id']}"
    text = "SAY:SLOW:600000 SAY:late"
    run = http.post(f"{path}/messages/async", json={"input": text}).json()
    until(
        "the second member to be asked",
        lambda: len(http.get(f"{path}/runs/{run['id']}").json()["hops"]) == 2,
    )
    member_run = http.get(f"{path}/runs/{run['id']}").json()["hops"][1]["run_id"]
    until(
        "its run to be accepted",
        lambda: http.get(f"/v1/runs/{member_run}").status_code == 200,
    )
    return str(run["id"])


def test_a_run_is_cancelled_with_the_runs_of_its_members(
    http: httpx.Client, new_group: NewGroup, crew: list[Any]
) -> None:
    group = new_group(ids_of(crew))
    run_id = slow_run(http, group)
    path = f"/v1/groups/{group['id']}"
    assert http.post(f"{path}/messages/cancel").json() == {run_id: "cancelled"}
    run = http.get(f"{path}/runs/{run_id}").json()
    assert (run["status"], run["stop_reason"]) == ("cancelled", "cancelled")
    member_run = run["hops"][1]["run_id"]
    until(
        "the member's run to be cancelled",
        lambda: http.get(f"/v1/runs/{member_run}").json()["status"] == "cancelled",
    )
    assert spoken(send(http, group, "SAY:next"))[0] == (crew[0].name, "next")


def test_a_member_that_is_deleted_while_it_answers_is_skipped(
    http: httpx.Client, new_group: NewGroup, crew: list[Any]
) -> None:
    group = new_group(ids_of(crew[:2]))
    run_id = slow_run(http, group)
    assert http.delete(f"/v1/agents/{crew[1].id}").status_code == 200
    path = f"/v1/groups/{group['id']}/runs/{run_id}"
    run = until(
        "the end of the run",
        lambda: (run := http.get(path).json())["status"] == "completed" and run,
    )
    assert [hop["status"] for hop in run["hops"]] == ["completed", "skipped"]


def test_a_group_that_is_deleted_while_it_answers_takes_its_run_with_it(
    http: httpx.Client, new_group: NewGroup, crew: list[Any]
) -> None:
    group = new_group(ids_of(crew[:2]))
    run_id = slow_run(http, group)
    member_run = http.get(f"/v1/groups/{group['id']}/runs/{run_id}").json()["hops"][1]
    assert http.delete(f"/v1/groups/{group['id']}").status_code == 200
    assert http.get(f"/v1/groups/{group['id']}/runs/{run_id}").status_code == 404
    until(
        "the conversation of the member to go",
        lambda: http.get(f"/v1/conversations/{member_run['conversation_id']}").status_code == 404,
    )


RULE = {"type": "requires_approval", "tool_name": "memory_insert"}
EDIT = json.dumps({"label": "human", "new_string": "Likes tea"})


def test_a_member_that_asks_for_an_approval_fails_alone_and_answers_the_next_message(
    http: httpx.Client, new_group: NewGroup, crew: list[Any], new_agent: NewAgent
) -> None:
    careful = new_agent(
        name=unique("Careful"), tool_rules=[RULE], include_base_tool_rules=False
    )  # fmt: skip
    group = new_group([careful.id, crew[0].id], manager_config={"manager_type": "broadcast"})
    answer = send(http, group, f"CALL:memory_insert:{EDIT} SAY:noted")
    assert {hop["name"]: hop["status"] for hop in answer["hops"]} == {
        careful.name: "failed",
        crew[0].name: "completed",
    }
    [reason] = [hop["reason"] for hop in answer["hops"] if hop["status"] == "failed"]
    assert "waits for an approval" in reason
    after = send(http, group, "SAY:both")
    assert sorted(spoken(after)) == sorted([(careful.name, "both"), (crew[0].name, "both")])


def test_a_member_whose_model_is_down_fails_alone(
    http: httpx.Client, new_group: NewGroup, crew: list[Any]
) -> None:
    group = new_group(ids_of(crew[:2]))
    answer = send(http, group, "SAY:FAIL:401")
    assert [hop["status"] for hop in answer["hops"]] == ["completed", "failed"]
    assert answer["hops"][1]["reason"]
    broken = new_group([crew[2].id])
    path = f"/v1/groups/{broken['id']}/messages"
    failed = http.post(path, json={"input": "FAIL:401"})
    assert failed.status_code >= 400
    assert "No member of the group could answer" in failed.text
    assert failed.headers["x-should-retry"] == "false"
    assert spoken(send(http, broken, "SAY:better")) == [(crew[2].name, "better")]


def test_a_request_that_the_sdk_repeats_is_one_run(
    http: httpx.Client, new_group: NewGroup, crew: list[Any]
) -> None:
    group = new_group(ids_of(crew[:1]))
    path = f"/v1/groups/{group['id']}/messages"
    body = {"input": "SLOW:400 SAY:once"}
    with pytest.raises(httpx.ReadTimeout):
        http.post(path, json=body, timeout=0.2)
    retried = http.post(path, json=body, headers={"x-stainless-retry-count": "1"})
    assert spoken(retried.json()) == [(crew[0].name, "once")]
    assert len(http.get(f"/v1/groups/{group['id']}/runs").json()) == 1
    assert len(http.get(path).json()) == 2


def test_a_group_whose_manager_is_deleted_refuses_messages_until_it_has_another(
    http: httpx.Client, new_group: NewGroup, crew: list[Any]
) -> None:
    boss, alice, bob = crew
    manager = {"manager_type": "supervisor", "manager_agent_id": boss.id}
    group = new_group([alice.id], manager_config=manager)
    path = f"/v1/groups/{group['id']}"
    assert http.delete(f"/v1/agents/{boss.id}").status_code == 200
    refused = http.post(f"{path}/messages", json={"input": "SAY:hello"})
    assert (refused.status_code, "`manager_agent_id`" in refused.text) == (409, True)
    assert boss.id in refused.text
    assert http.get(f"{path}/messages").json() == []
    another = {"manager_type": "supervisor", "manager_agent_id": bob.id}
    assert http.patch(path, json={"manager_config": another}).status_code == 200
    assert spoken(send(http, group, "SAY:hello")) == [(bob.name, "hello")]


def test_what_a_member_said_for_a_group_is_marked_and_found_in_its_own_history(
    http: httpx.Client, new_group: NewGroup, crew: list[Any]
) -> None:
    alice = crew[0]
    group, other = new_group([alice.id]), new_group([alice.id])
    for each, word in ((group, "SAY:here"), (other, "SAY:there")):
        send(http, each, word)
    heard = http.get(f"/v1/agents/{alice.id}/messages", params={"group_id": group["id"]}).json()
    [said] = [each for each in heard if each["message_type"] == "assistant_message"]
    assert (said["content"], said["group_id"], said["sender_id"]) == (
        "here",
        group["id"],
        alice.id,
    )
    assert {each["group_id"] for each in heard} == {group["id"]}
    nothing = http.get(f"/v1/agents/{alice.id}/messages", params={"group_id": NO_GROUP})
    assert nothing.json() == []


def test_members_write_the_shared_state_of_their_group(
    http: httpx.Client, new_group: NewGroup, crew: list[Any]
) -> None:
    group = new_group(ids_of(crew[:2]), shared_state={"topic": "tides", "draft": "none"})
    write = json.dumps({"state": {"draft": "The moon pulls the sea.", "topic": None}})
    answer = send(http, group, f"CALL:update_shared_state:{write} SAY:written")
    alice, bob = (agent.name for agent in crew[:2])
    assert spoken(answer) == [(alice, "written"), (bob, "Hello from the scripted model.")]
    assert [hop["name"] for hop in answer["hops"]] == [alice, alice, bob]
    state = http.get(f"/v1/agent-groups/{group['id']}/state").json()
    assert state == {"state": {"draft": "The moon pulls the sea."}, "version": 1}
    heard = http.get(f"/v1/agents/{crew[1].id}/messages", params={"group_id": group["id"]})
    assert "The moon pulls the sea." in heard.text


def test_a_page_of_a_transcript_has_a_bound_and_leads_on(
    http: httpx.Client, new_group: NewGroup, crew: list[Any]
) -> None:
    group = new_group(ids_of(crew[:1]))
    path = f"/v1/groups/{group['id']}"
    long = "x" * (GROUP_REQUEST_BYTES_MAX - 1_000)
    sent = PAGE_BYTES_MAX // GROUP_REQUEST_BYTES_MAX + 2
    for number in range(sent):
        answer = http.post(f"{path}/messages/async", json={"input": f"{long} SAY:{number}"})
        assert answer.status_code == 200, answer.text

    last = f"{path}/runs/{answer.json()['id']}"

    def is_over() -> bool:
        return bool(http.get(last).json()["status"] == "completed")

    asyncio.run(wait_for("the last run to end", is_over, 120.0))
    count, after = 0, dict[str, str]()
    while listed := http.get(f"{path}/messages", params=after).json():
        count, after = count + len(listed), {"after": listed[-1]["id"]}
    assert count == 2 * sent
    first = http.get(f"{path}/messages", params={"limit": 1_000})
    assert len(first.content) <= PAGE_BYTES_MAX + len(first.json())
    assert 0 < len(first.json()) < 2 * sent
