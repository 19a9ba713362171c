"""Messages in conversations, through the real SDK: sent, streamed, refused while one is busy,
resumed and cancelled."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import httpx
import pytest
from letta_client import BadRequestError, ConflictError, Letta

from tests.e2e.asking import HELLO, NOBODY, Line, history, kinds, lines_of, say, says
from tests.e2e.conftest import NewAgent
from tests.unit.letta import recordings

SEND = pytest.mark.operation("POST /v1/conversations/{conversation_id}/messages")
LIST = pytest.mark.operation("GET /v1/conversations/{conversation_id}/messages")
STREAM = pytest.mark.operation("POST /v1/conversations/{conversation_id}/stream")
CANCEL = pytest.mark.operation("POST /v1/conversations/{conversation_id}/cancel")


def stream(http: httpx.Client, conversation_id: str, text: str, **fields: Any) -> list[Line]:
    """Send a message, read the whole stream."""
    body = {"messages": says(text), **fields}
    answer = http.post(f"/v1/conversations/{conversation_id}/messages", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    return lines_of(answer.text)


@contextmanager
def busy(letta: Letta, http: httpx.Client, name: str, **fields: Any) -> Iterator[str]:
    """A conversation in which a run goes on, until it is cancelled; gives the run's id."""
    found: list[str] = []
    told = threading.Event()
    body = {"messages": says("SLOW:20000"), **fields}

    def follow() -> None:
        with http.stream("POST", f"/v1/conversations/{name}/messages", json=body) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: {") and not found:
                    found.append(lines_of(f"{line}\n\n")[0].data["run_id"])
                    told.set()

    following = threading.Thread(target=follow)
    following.start()
    assert told.wait(20), "the run begins"
    try:
        yield found[0]
    finally:
        http.post(f"/v1/conversations/{name}/cancel")
        following.join(20)
        assert not following.is_alive()


@SEND
@LIST
def test_a_conversation_streams_unless_told_not_to(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    conversation = letta.conversations.create(agent_id=agent.id)

    lines = stream(http, conversation.id, "Hello")
    body = {"messages": says("Hello"), "streaming": False}
    answer = http.post(f"/v1/conversations/{conversation.id}/messages", json=body).json()

    recorded = recordings.events("conversation_v1agent_stream")
    assert [line.data["message_type"] for line in lines[:-1]] == [
        event["message_type"] for event in recorded
    ]
    for line, event in zip(lines[:-1], recorded, strict=True):
        assert set(line.data) == set(event)
    whole: Any = recordings.body("conversation_v1agent_nonstream")
    assert (
        recordings.differences(
            {**answer, "messages": []}, {**whole, "messages": [], "usage": answer["usage"]}
        )
        == []
    )
    assert set(answer["usage"]) == set(whole["usage"])
    assert [message["content"] for message in answer["messages"]] == [HELLO]
    listed = http.get(f"/v1/conversations/{conversation.id}/messages").json()
    expected: Any = recordings.body("conversation_v1agent_messages")
    assert [message["message_type"] for message in listed] == [
        message["message_type"] for message in expected
    ]
    assert [{k: type(v) for k, v in row.items()} for row in listed[::2]] == [
        {k: type(v) for k, v in row.items()} for row in expected[::2]
    ]
    run = letta.runs.retrieve(lines[0].data["run_id"])
    assert run.conversation_id == conversation.id
    assert (run.metadata or {})["run_type"] == "send_conversation_message"
    seen = letta.conversations.retrieve(conversation.id)
    assert [row["id"] for row in reversed(listed)] == seen.in_context_message_ids
    assert seen.last_message_at is not None
    own = letta.agents.retrieve(agent.id)
    assert not set(own.message_ids or []) & set(seen.in_context_message_ids or [])


@pytest.mark.operation("GET /v1/agents/{agent_id}/messages")
def test_the_messages_of_an_agent_are_those_of_all_its_conversations(
    letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent()
    new_agent()
    one, two = (letta.conversations.create(agent_id=agent.id).id for _ in range(2))
    letta.agents.messages.create(agent.id, messages=says("SAY:0"))
    for n, conversation in enumerate((one, two, one), start=1):
        say(letta, conversation, f"SAY:{n}")
    letta.agents.messages.create(agent.id, messages=says("SAY:4"))

    listed = letta.agents.messages.list(agent.id).items

    systems, said = listed[:3], listed[3:]
    assert [message.message_type for message in systems] == ["system_message"] * 3
    answers = [message for message in said if message.message_type == "assistant_message"]
    assert [message.content for message in answers] == ["0", "1", "2", "3", "4"]
    assert [message.message_type for message in said[::2]] == ["user_message"] * 5
    ids = [message.id for message in listed]
    for number, cursor in enumerate(ids):
        later = letta.agents.messages.list(agent.id, order="asc", after=cursor, limit=4).items
        assert [message.id for message in later] == ids[number + 1 : number + 5]
        earlier = letta.agents.messages.list(agent.id, before=cursor, limit=4).items
        assert [message.id for message in earlier] == ids[max(0, number - 4) : number]
    for name, texts in ((one, ["1", "3"]), (two, ["2"]), ("default", ["0", "4"])):
        own = letta.agents.messages.list(agent.id, conversation_id=name).items
        assert [o.content for o in own if o.message_type == "assistant_message"] == texts
    words = letta.agents.messages.list(
        agent.id, limit=2, include_return_message_types=["assistant_message"]
    ).items
    assert [message.id for message in words] == [message.id for message in answers[-2:]]
    with pytest.raises(BadRequestError, match="after"):
        letta.agents.messages.list(agent.id, conversation_id=two, after=answers[1].id)


@LIST
def test_messages_are_paged_in_their_order(letta: Letta, new_agent: NewAgent) -> None:
    agent = new_agent()
    conversation = letta.conversations.create(agent_id=agent.id)
    for n in range(3):
        say(letta, conversation.id, f"SAY:{n}")
    pages = letta.conversations.messages.list
    newest = [page.id for page in pages(conversation.id).items]
    assert len(newest) == 7
    assert [page.id for page in pages(conversation.id, limit=2)] == newest
    oldest = [page.id for page in pages(conversation.id, limit=2, order="asc")]
    assert oldest == newest[::-1]
    older = pages(conversation.id, before=newest[2], limit=2).items
    assert [page.id for page in older] == newest[3:5]
    assert pages(conversation.id, after=newest[-1]).items == []
    of_type = pages(
        conversation.id, extra_query={"include_return_message_types": ["user_message"]}
    ).items
    assert [page.content for page in of_type] == ["SAY:2", "SAY:1", "SAY:0"]  # type: ignore[union-attr]
    through_agent = letta.agents.messages.list(agent.id, conversation_id=conversation.id).items
    assert [item.id for item in through_agent] == oldest


@SEND
@LIST
def test_the_agents_own_conversation_has_three_names(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    assert say(letta, "default", "SAY:one", agent_id=agent.id) == "one"
    assert say(letta, agent.id, "SAY:two") == "two"
    letta.agents.messages.create(agent.id, messages=says("SAY:three"))
    expected = ["SAY:one", "one", "SAY:two", "two", "SAY:three", "three"]
    assert history(letta, agent.id) == expected
    assert history(letta, "default", agent_id=agent.id) == expected
    runs = letta.runs.list(agent_id=agent.id, conversation_id="default").items
    assert len(runs) == 3
    assert {run.conversation_id for run in runs} == {None}
    missing = http.post("/v1/conversations/default/messages", json={"messages": says("Hi")})
    assert missing.status_code == 422
    assert "agent_id" in missing.json()["detail"]
    for path in (f"agent-{NOBODY}", f"default?agent_id=agent-{NOBODY}"):
        name, _, query = path.partition("?")
        answer = http.get(f"/v1/conversations/{name}/messages?{query}")
        assert answer.status_code == 404
        assert answer.json() == {"detail": f"Agent with ID agent-{NOBODY} not found"}


@SEND
def test_a_conversation_of_another_agent_is_not_found(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    one, other = new_agent(), new_agent()
    theirs = letta.conversations.create(agent_id=other.id)
    path = f"/v1/conversations/{theirs.id}"
    body = {"messages": says("Hello"), "agent_id": one.id}
    for refused in (
        http.post(f"{path}/messages", json=body),
        http.get(f"{path}/messages", params={"agent_id": one.id}),
        http.post(f"{path}/cancel", params={"agent_id": one.id}),
        http.post(f"{path}/fork", params={"agent_id": one.id}),
        http.post(f"{path}/recompile", json={"agent_id": one.id}),
        http.post(f"{path}/stream", json={"agent_id": one.id}),
    ):
        assert refused.status_code == 404
    assert http.get(f"/v1/agents/{one.id}/messages?conversation_id={theirs.id}").json() == []
    assert history(letta, theirs.id) == []


@SEND
@pytest.mark.parametrize("own", [False, True], ids=["conversation", "agent in its place"])
def test_a_busy_conversation_refuses_without_side_effect(
    letta: Letta, http: httpx.Client, new_agent: NewAgent, own: bool
) -> None:
    agent = new_agent()
    other = letta.conversations.create(agent_id=agent.id)
    name = agent.id if own else letta.conversations.create(agent_id=agent.id).id
    with busy(letta, http, name) as run_id:
        body = {"messages": says("Me too")}
        refused = http.post(f"/v1/conversations/{name}/messages", json=body)
        whole = http.post(f"/v1/conversations/{name}/messages", json={**body, "streaming": False})
        kind = "agent_direct_conv" if own else "conversation"
        for answer in (refused, whole):
            assert answer.status_code == 409
            assert answer.json() == recordings.body(f"error_409_busy_{kind}")
            assert answer.headers["x-should-retry"] == "false"
            assert answer.headers["x-run-id"] == run_id
        with pytest.raises(ConflictError):
            say(letta, name, "Me three")
        assert [run.id for run in letta.runs.list(agent_id=agent.id).items] == [run_id]
        assert history(letta, name) == ["SLOW:20000"]
        assert say(letta, other.id, "Hello") == HELLO, "another conversation is not busy"
    assert say(letta, name, "Hello") == HELLO


@SEND
def test_plain_messages_wait_in_line_where_conversations_refuse(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    running = letta.agents.messages.create_async(agent.id, messages=says("SLOW:1000 SAY:one"))
    refused = http.post(f"/v1/conversations/{agent.id}/messages", json={"messages": says("Hello")})
    assert refused.status_code == 409
    assert refused.json()["run_id"] == running.id, "its stream can be resumed"
    assert refused.headers["x-run-id"] == running.id
    waited = letta.agents.messages.create(agent.id, messages=says("SAY:two"))
    assert waited.messages[0].content == "two"  # type: ignore[union-attr]
    assert history(letta, agent.id) == ["SLOW:1000 SAY:one", "one", "SAY:two", "two"]


@SEND
def test_of_two_sends_at_once_one_is_refused(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    conversation = letta.conversations.create(agent_id=agent.id)
    statuses: list[int] = []
    body = {"messages": says("SLOW:700"), "streaming": False}

    def send() -> None:
        path = f"/v1/conversations/{conversation.id}/messages"
        statuses.append(http.post(path, json=body).status_code)

    threads = [threading.Thread(target=send) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(statuses) == [200, 409, 409, 409, 409, 409]
    assert history(letta, conversation.id) == ["SLOW:700", HELLO]
    assert len(letta.runs.list(conversation_id=conversation.id).items) == 1


@SEND
@STREAM
def test_a_retry_with_the_same_otids_attaches_to_the_run_that_exists(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    conversation = letta.conversations.create(agent_id=agent.id)
    otid = str(uuid4())
    body = {"messages": says("SLOW:1000 SAY:once", otid=otid), "background": True}
    path = f"/v1/conversations/{conversation.id}"
    answers: list[httpx.Response] = []

    def send() -> None:
        answers.append(http.post(f"{path}/messages", json=body))

    threads = [threading.Thread(target=send) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    runs = {lines_of(answer.text)[0].data["run_id"] for answer in answers}
    assert len(runs) == 1
    [run_id] = runs
    for answer in answers:
        assert "once" in answer.text
    assert history(letta, conversation.id) == ["SLOW:1000 SAY:once", "once"]

    by_otid = lines_of(http.post(f"{path}/stream", json={"otid": otid}).text)
    by_run = lines_of(http.post(f"{path}/stream", json={"run_id": run_id}).text)
    assert kinds(by_otid) == kinds(by_run)
    assert by_otid[0].data["run_id"] == run_id
    assert [line.data["content"] for line in by_run if line.data != "[DONE]"
            and line.data["message_type"] == "assistant_message"] == ["once"]  # fmt: skip
    other = letta.conversations.create(agent_id=agent.id)
    elsewhere = f"/v1/conversations/{other.id}"
    again = lines_of(http.post(f"{elsewhere}/messages", json=body).text)
    assert again[0].data["run_id"] != run_id, "another conversation is another request"


@STREAM
def test_the_stream_of_the_active_run_is_resumed(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    conversation = letta.conversations.create(agent_id=agent.id)
    path = f"/v1/conversations/{conversation.id}/stream"
    none = http.post(path, json={})
    assert none.status_code == 400
    assert none.json() == {"detail": "No active runs found for this conversation."}
    with busy(letta, http, conversation.id, background=True) as run_id:
        resumed: list[Any] = []
        begun = threading.Event()

        def resume() -> None:
            stream = letta.conversations.messages.stream(conversation.id)
            begun.set()
            resumed.extend(stream)

        resuming = threading.Thread(target=resume)
        resuming.start()
        assert begun.wait(20)
        outcome = http.post(f"/v1/conversations/{conversation.id}/cancel").json()
        assert outcome == {run_id: "cancelled"}
        resuming.join(20)
    assert resumed[-1].message_type == "stop_reason"
    assert resumed[-1].stop_reason == "cancelled"
    with busy(letta, http, conversation.id):
        foreground = http.post(path, json={})
        assert foreground.status_code == 400
        assert "background" in foreground.json()["detail"]
    for body in ({"otid": "nothing"}, {"run_id": f"run-{NOBODY}"}):
        assert http.post(path, json=body).status_code == 404
    [elsewhere] = [agent.id]
    other = http.post(f"/v1/conversations/{elsewhere}/stream", json={"run_id": run_id})
    assert other.status_code == 404, "that run is of another conversation"


@CANCEL
def test_cancelling_ends_what_runs_in_one_conversation(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    one = letta.conversations.create(agent_id=agent.id)
    other = letta.conversations.create(agent_id=agent.id)
    with busy(letta, http, one.id) as first, busy(letta, http, other.id) as second:
        assert letta.conversations.cancel(one.id) == {first: "cancelled"}
        assert letta.runs.retrieve(second).status == "running"
        with pytest.raises(ConflictError, match="No active runs to cancel"):
            letta.conversations.cancel(one.id)
        everything: Any = letta.agents.messages.cancel(agent.id)
        assert everything == {second: "cancelled"}
    assert {run.status for run in letta.runs.list(agent_id=agent.id).items} == {"cancelled"}
    assert say(letta, one.id, "Hello") == HELLO
    assert http.post(f"/v1/conversations/conv-{NOBODY}/cancel").status_code == 404


@CANCEL
def test_runs_are_cancelled_by_their_ids_in_any_conversation(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent, stranger = new_agent(), new_agent()
    one = letta.conversations.create(agent_id=agent.id)
    theirs = letta.conversations.create(agent_id=stranger.id)
    with busy(letta, http, one.id) as run_id, busy(letta, http, theirs.id) as strange:
        asked = [run_id, strange, f"run-{NOBODY}"]
        outcome: Any = letta.agents.messages.cancel(agent.id, run_ids=asked)
        assert outcome == {run_id: "cancelled", strange: "failed", f"run-{NOBODY}": "failed"}
        assert letta.runs.retrieve(strange).status == "running"


@pytest.mark.operation("DELETE /v1/conversations/{conversation_id}")
def test_deleting_a_conversation_ends_its_run(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    conversation = letta.conversations.create(agent_id=agent.id)
    with busy(letta, http, conversation.id) as run_id:
        letta.conversations.delete(conversation.id)
        assert http.get(f"/v1/runs/{run_id}").status_code == 404
    assert letta.runs.list(agent_id=agent.id).items == []


@pytest.mark.operation("POST /v1/conversations/{conversation_id}/fork")
def test_a_fork_of_a_busy_conversation_leaves_the_unfinished_step_behind(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    conversation = letta.conversations.create(agent_id=agent.id)
    say(letta, conversation.id, "SAY:one")
    with busy(letta, http, conversation.id):
        fork = letta.conversations.fork(conversation.id)
        assert history(letta, fork.id) == ["SAY:one", "one", "SLOW:20000"]
        assert say(letta, fork.id, "SAY:in the fork") == "in the fork"
    assert "in the fork" not in str(history(letta, conversation.id))


@SEND
def test_what_was_said_in_one_conversation_is_found_from_another(
    letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent()
    one = letta.conversations.create(agent_id=agent.id)
    say(letta, one.id, "My cat is called Zeno")
    fork = letta.conversations.fork(one.id)
    other = letta.conversations.create(agent_id=agent.id)
    search = 'CALL:conversation_search:{"query":"is called zeno","roles":["user"]}'
    say(letta, other.id, search)
    [found] = [
        message for message in letta.conversations.messages.list(other.id).items
        if message.message_type == "tool_return_message"
    ]  # fmt: skip
    assert found.tool_return.count("My cat is called Zeno") == 1, "the fork's copy is no other"
    letta.conversations.delete(one.id)
    say(letta, fork.id, search)
    [again] = [
        message for message in letta.conversations.messages.list(fork.id).items
        if message.message_type == "tool_return_message"
    ]  # fmt: skip
    assert again.tool_return.count("My cat is called Zeno") == 1


@SEND
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": []},
        {"messages": [{"role": "nobody", "content": "x"}]},
        {"messages": says("x"), "input": "x"},
        {"messages": says("x"), "max_steps": 0},
        {"messages": says("x"), "streaming": False, "background": True},
    ],
)
def test_requests_that_cannot_be_are_refused(
    letta: Letta, http: httpx.Client, new_agent: NewAgent, body: dict[str, Any]
) -> None:
    conversation = letta.conversations.create(agent_id=new_agent().id)
    answer = http.post(f"/v1/conversations/{conversation.id}/messages", json=body)
    assert answer.status_code == 422
    assert history(letta, conversation.id) == []
