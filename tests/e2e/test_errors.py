"""What is refused, how it is said, and that nothing is half done afterwards."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import httpx
import pytest
from letta_client import Letta

from tests.compatibility_plugin import OPERATIONS
from tests.e2e.asking import NOBODY, SEND, lines_of, says, unique
from tests.e2e.conftest import NewAgent
from tests.unit.letta import recordings

BODY_BYTES = 50 * 1024 * 1024


@pytest.mark.parametrize(
    "name",
    [
        "error_404_agent",
        "error_404_block",
        "error_404_message_agent",
        "error_404_route",
        "error_405",
        "error_422_bad_id",
        "error_422_create_type",
        "error_422_limit",
        "core_memory_block_404",
        "agent_create_empty_body",
        "message_send_badrole",
        "message_send_empty",
        "message_send_nobody",
    ],
)
def test_errors_are_said_as_recorded(http: httpx.Client, new_agent: NewAgent, name: str) -> None:
    recorded: Any = recordings.exchange(name)
    request = recorded["request"]
    path = str(request["path"])
    theirs = next((part for part in path.split("/") if part.startswith("agent-1")), NOBODY)
    ours = new_agent().id if theirs != NOBODY else NOBODY

    answer = http.request(request["method"], path.replace(theirs, ours), json=request["body"])

    expected = recorded["body"]
    if isinstance(expected.get("detail"), str):
        expected = {**expected, "detail": expected["detail"].replace(theirs, ours)}
    assert answer.status_code == recorded["status"]
    assert answer.headers["content-type"] == "application/json"
    assert recordings.differences(answer.json(), expected) == []


@pytest.mark.operation("POST /v1/agents/")
def test_a_body_that_is_not_json_is_said_as_recorded(http: httpx.Client) -> None:
    answer = http.post("/v1/agents/", content=b"{nope")

    assert answer.status_code == 422
    assert answer.json() == recordings.body("error_422_malformed_json")


@SEND
@pytest.mark.parametrize(
    "content",
    [b"{", b"[" * 100_000, b"\xff\xfe", b'{"input": "\\ud800"}', b'{"x": NaN}', b"null", b"7", b""],
)
def test_a_body_that_cannot_be_read_is_a_422(
    letta: Letta, http: httpx.Client, new_agent: NewAgent, content: bytes
) -> None:
    agent = new_agent()
    for method, path in (
        ("POST", "/v1/agents/"),
        ("PATCH", f"/v1/agents/{agent.id}"),
        ("POST", "/v1/blocks/"),
        ("POST", f"/v1/agents/{agent.id}/messages"),
        ("POST", f"/v1/agents/{agent.id}/messages/stream"),
    ):
        answer = http.request(method, path, content=content)
        assert answer.status_code == 422, (path, answer.text)
        assert answer.json()["trace_id"] == ""
        assert "'loc': ('body'" in answer.json()["detail"]
    assert letta.runs.list(agent_id=agent.id).items == []
    assert len(letta.agents.messages.list(agent.id).items) == 1


@SEND
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"messages": "hi"}, "valid list"),
        ({"messages": [{"role": "user"}]}, "content"),
        ({"messages": [{"content": "x"}]}, "role"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "role"),
        ({"messages": says("x"), "input": "x"}, "not both"),
        ({"input": 5}, "input"),
        ({"messages": says("x"), "max_steps": 0}, "`max_steps`"),
        ({"messages": says("x"), "max_steps": 10_000}, "`max_steps`"),
        ({"messages": says("x"), "max_steps": "many"}, "max_steps"),
        ({"messages": [{"type": "approval", "approvals": []}]}, "at least one tool call"),
        ({"messages": [{"type": "tool_return", "tool_returns": []}]}, "at least one tool call"),
        ({"messages": says("x"), "client_tools": [{"name": "a b"}]}, "`client_tools`, entry 0"),
        (
            {"messages": says("x"), "client_tools": [{"name": "x"}, {"name": "x"}]},
            "`client_tools`, entry 1",
        ),
        ({"messages": says("x"), "top_logprobs": 3}, "`return_logprobs`"),
        ({"messages": says("x"), "include_return_message_types": ["x"]}, "include_return"),
    ],
)
def test_a_message_that_cannot_be_is_refused_and_starts_nothing(
    letta: Letta, http: httpx.Client, new_agent: NewAgent, body: dict[str, Any], said: str
) -> None:
    agent = new_agent()
    for path in ("messages", "messages/stream"):
        answer = http.post(f"/v1/agents/{agent.id}/{path}", json=body)
        assert answer.status_code == 422, answer.text
        assert answer.headers["content-type"] == "application/json"
        assert said in answer.json()["detail"]
    assert letta.runs.list(agent_id=agent.id).items == []
    assert len(letta.agents.messages.list(agent.id).items) == 1


def test_ids_must_have_the_prefix_of_their_kind(http: httpx.Client, new_agent: NewAgent) -> None:
    agent = new_agent()
    for method, path, kind in (
        ("GET", f"/v1/agents/block-{NOBODY}", "agent"),
        ("PATCH", "/v1/agents/x", "agent"),
        ("DELETE", f"/v1/agents/{agent.id}0", "agent"),
        ("POST", "/v1/agents/x/messages", "agent"),
        ("POST", "/v1/agents/x/messages/stream", "agent"),
        ("GET", "/v1/agents/x/messages", "agent"),
        ("GET", "/v1/agents/x/core-memory/blocks/human", "agent"),
        ("GET", f"/v1/blocks/{agent.id}", "block"),
        ("DELETE", f"/v1/blocks/{agent.id}", "block"),
        ("PATCH", f"/v1/agents/{agent.id}/core-memory/blocks/attach/x", "block"),
        ("GET", f"/v1/runs/{agent.id}", "run"),
    ):
        body = {"input": "x", "name": "x"} if method in ("POST", "PATCH") else None
        answer = http.request(method, path, json=body)
        assert answer.status_code == 422, path
        assert answer.json()["examples"][0].startswith(f"{kind}-")
        assert f"('path', '{kind}_id')" in answer.json()["detail"]


def test_a_huge_body_is_refused_and_the_server_goes_on(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    huge = b'{"input": "' + b"x" * BODY_BYTES + b'"}'
    for path in ("/v1/agents/", f"/v1/agents/{agent.id}/messages", "/v1/blocks/"):
        answer = http.post(path, content=huge)
        assert answer.status_code == 413, path
        assert "send less at once" in answer.json()["detail"]
    large = "x" * 1_000_000
    http.post(f"/v1/agents/{agent.id}/messages", json={"input": large}).raise_for_status()
    user = letta.agents.messages.list(agent.id).items[1]
    assert user.content == large  # type: ignore[union-attr]


# Refused by V1, too: a history is not rewritten.
CHANGE_OF_MESSAGE = "PATCH /v1/agents/{agent_id}/messages/{message_id}"


def operations() -> list[tuple[str, str]]:
    with Path(OPERATIONS).open() as table:
        rows = list(csv.DictReader(table, delimiter="\t"))
    return [(row["method"], row["path"]) for row in rows]


def test_every_operation_of_v1_is_there_or_says_that_it_is_missing(http: httpx.Client) -> None:
    missing = 0
    for method, pattern in operations():
        path = "/".join(
            f"{part[1:-1].removesuffix('_id')}-{NOBODY}" if part.startswith("{") else part
            for part in pattern.split("/")
        )
        answer = http.request(method.split("|")[0], path)
        name = f"{method} {pattern}"
        assert answer.headers["content-type"] == "application/json", name
        if any(probed in pattern for probed in ("/v1/environments", "/v1/metadata")):
            assert (answer.status_code, answer.json()) == (404, {"detail": "Not Found"}), name
        elif answer.status_code == 501:
            missing += 1
            assert f"{name.rstrip('/')}" in answer.json()["detail"], name
            assert "not built" in answer.json()["detail"]
            assert answer.headers["x-should-retry"] == "false"
        elif name == CHANGE_OF_MESSAGE:
            assert answer.status_code == 405
            assert "Messages cannot be changed" in answer.json()["detail"]
        else:
            assert answer.status_code in (200, 400, 404, 422), (name, answer.text)
            assert answer.json() != {"detail": "Not Found"}, name
            assert "{" in pattern or "('path'" not in answer.text, f"{name} is taken for an id"
    assert missing > 0


def test_what_is_not_v1_at_all_is_a_404_or_a_405(http: httpx.Client) -> None:
    for path in ("/v1", "/v1/", "/v1/nope", "/v2/agents", f"/v1/agents/agent-{NOBODY}/nope"):
        answer = http.get(path)
        assert (answer.status_code, answer.json()) == (404, {"detail": "Not Found"}), path
    for method, path in (("PUT", "/v1/agents/"), ("DELETE", "/v1/blocks"), ("POST", "/v1/health")):
        answer = http.request(method, path)
        assert (answer.status_code, answer.json()) == (405, {"detail": "Method Not Allowed"}), path
        assert answer.headers["allow"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/folders/name/%00"),
        ("GET", "/v1/agents/{agent}/core-memory/blocks/%00"),
        ("POST", "/v1/agents/{agent}/tools/%00/run"),
        ("PATCH", "/v1/agents/{agent}/tools/approval/%00"),
        ("POST", "/v1/tools/mcp/servers/%00/resync"),
        ("POST", "/v1/tools/mcp/servers/%00/a"),
        ("POST", "/v1/tools/mcp/servers/%00/tools/a/execute"),
        ("DELETE", "/v1/tools/mcp/servers/%00"),
    ],
)
def test_a_name_that_is_a_nul_character_is_not_found(
    http: httpx.Client, new_agent: NewAgent, method: str, path: str
) -> None:
    body = {"requires_approval": True}
    answer = http.request(method, path.format(agent=new_agent().id), json=body)
    assert answer.status_code == 404, answer.text


@SEND
@pytest.mark.operation("POST /v1/agents/")
@pytest.mark.operation("POST /v1/blocks/")
def test_nul_characters_are_left_out_everywhere(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent(
        description="a\x00b",
        metadata={"k\x00ey": ["v\x00"]},
        tags=["t\x00ag"],
        system="Be\x00 kind.",
        memory_blocks=[{"label": "hu\x00man", "value": "A\x00da", "description": "\x00"}],
    )
    read = letta.agents.retrieve(agent.id, include=["agent.blocks", "agent.tags"])
    assert (read.description, read.metadata, read.tags, read.system) == (
        "ab",
        {"key": ["v"]},
        ["tag"],
        "Be kind.",
    )
    assert [(block.label, block.value) for block in read.blocks] == [("human", "Ada")]
    letta.agents.update(agent.id, description="c\x00d")
    assert letta.agents.retrieve(agent.id).description == "cd"
    block = letta.blocks.create(label="x\x00y", value="\x00z")
    assert (block.label, block.value) == ("xy", "z")
    assert letta.blocks.update(block.id, value="\x00\x00").value == ""

    # Text that only looks like the escape of a NUL is text.
    escape = "C:\\u0000"
    assert letta.blocks.update(block.id, value=escape).value == escape
    answer = letta.agents.messages.create(agent.id, input="SAY:\x00Hi")
    assert answer.messages[0].content == "Hi"  # type: ignore[union-attr]

    # A model may send one, too.
    call = 'CALL:memory_insert:{"label":"human","new_string":"te\\u0000a"}'
    body = http.post(f"/v1/agents/{agent.id}/messages", json={"messages": says(call)}).json()
    assert [message["message_type"] for message in body["messages"]] == [
        "tool_call_message",
        "tool_return_message",
        "assistant_message",
    ]
    assert letta.agents.blocks.retrieve("human", agent_id=agent.id).value == "Ada\ntea"
    found = 'CALL:conversation_search:{"query":"te\\u0000a"}'
    search = http.post(f"/v1/agents/{agent.id}/messages", json={"messages": says(found)})
    assert search.status_code == 200
    assert letta.agents.messages.create(agent.id, input="Hello").stop_reason.stop_reason == (
        "end_turn"
    )

    for path in (
        "/v1/agents/?name=a%00b",
        "/v1/agents/?tags=a%00b",
        "/v1/agents/?after=%00",
        "/v1/blocks/?label=%00",
        f"/v1/agents/{agent.id}/messages?before=%00",
        "/v1/runs/?agent_id=%00",
        "/v1/models/?provider_name=%00",
    ):
        odd = http.get(path)
        assert odd.status_code == 422, (path, odd.text)
        assert "NUL" in odd.json()["detail"]
    for path in (
        f"/v1/agents/{agent.id}/core-memory/blocks/a%00b",
        f"/v1/agents/{agent.id}/core-memory/blocks/%ED%A0%80",
        "/v1/agents/%00",
        "/v1/agents/?name=%ED%A0%80",
    ):
        assert http.get(path).status_code in (200, 404, 422), path


@SEND
def test_half_a_surrogate_pair_from_a_model_is_survived(
    http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    call = 'CALL:memory_insert:{"label":"human","new_string":"x\\ud800y"}'

    body = http.post(f"/v1/agents/{agent.id}/messages", json={"messages": says(call)}, timeout=10)

    assert body.status_code == 200, body.text
    after = http.post(f"/v1/agents/{agent.id}/messages", json={"input": "Hello"}, timeout=10)
    assert after.status_code == 200


def test_a_refused_stream_is_json_and_not_a_stream(http: httpx.Client) -> None:
    answer = http.post(f"/v1/agents/agent-{NOBODY}/messages/stream", json={"input": "x"})

    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {"detail": f"Agent with ID agent-{NOBODY} not found"}


@SEND
def test_odd_but_valid_text_comes_back_letter_for_letter(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    odd = "🐕‍🦺 \u202e \u2028 \r\n\t \\ \" ' %s {x} <b> \u0001 é " + unique("odd")

    answer = http.post(
        f"/v1/agents/{agent.id}/messages/stream", json={"messages": says(f"SAY:{odd}")}
    )

    assert lines_of(answer.text)[1].data["content"] == odd
    listed = letta.agents.messages.list(agent.id).items
    assert listed[-1].content == odd  # type: ignore[union-attr]
    assert listed[-2].content == f"SAY:{odd}"  # type: ignore[union-attr]
