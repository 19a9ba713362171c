"""The native API: agents named by their names, made from JSON or TOML, asked with one text."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.e2e.asking import EMBEDDING, HELLO, MODEL, NOBODY, SECONDS_MAX, is_id, unique
from tests.e2e.conftest import NewAgent
from tests.servers import HeelerInstance

PAGE = Path(__file__).parents[2] / "docs" / "native-api.md"

TOML = """
name = "{name}"
description = "Answers questions."
system_prompt = \"\"\"
You are kind.
\"\"\"
model = "{model}"
embedding = "{embedding}"
tags = ["friendly"]
timezone = "Europe/Berlin"
tools = ["conversation_search"]
include_base_tools = false

[[memory]]
label = "human"
value = "Name: Ada"
limit = 5000

[metadata]
team = "support"
"""


def toml(name: str, more: str = "") -> bytes:
    return (TOML.format(name=name, model=MODEL, embedding=EMBEDDING) + more).encode()


def post_toml(
    http: httpx.Client, text: bytes, kind: str = "application/toml", **headers: str
) -> httpx.Response:
    return http.post("/agents", content=text, headers={"content-type": kind, **headers})


def refusal_of(answer: httpx.Response, status: int) -> str:
    """The sentence that each refusal has."""
    assert answer.status_code == status, answer.text
    detail = answer.json()["detail"]
    assert isinstance(detail, str)
    return detail


@pytest.mark.parametrize("kind", ["application/toml; charset=utf-8", "text/plain"])
def test_an_agent_is_made_from_its_file_read_by_its_name_and_deleted(
    http: httpx.Client, kind: str
) -> None:
    name = unique("Ada Lovelace's")

    made = post_toml(http, toml(name), kind)

    assert made.status_code == 201, made.text
    agent = made.json()
    assert made.headers["location"] == f"/agents/{agent['id']}"
    assert agent.pop("warnings") == []
    assert http.get(f"/agents/{quote(name)}").json() == agent
    assert http.get(made.headers["location"]).json() == agent
    [block] = agent.pop("memory")
    assert is_id("block", block["id"])
    assert (block["label"], block["value"], block["limit"]) == ("human", "Name: Ada", 5000)
    assert is_id("agent", agent["id"])
    assert agent["created_at"] <= agent["updated_at"]
    shown = {
        "name": name,
        "description": "Answers questions.",
        "system_prompt": "You are kind.\n",
        "model": MODEL,
        "embedding": EMBEDDING,
        "agent_type": "letta_v1_agent",
        "tags": ["friendly"],
        "timezone": "Europe/Berlin",
        "tools": ["conversation_search"],
        "metadata": {"team": "support"},
    }
    assert {field: agent[field] for field in shown} == shown
    assert http.get(f"/v1/agents/{agent['id']}").json()["system"] == "You are kind.\n"

    deleted = http.delete(f"/agents/{quote(name)}")

    assert (deleted.status_code, deleted.content) == (204, b"")
    assert name in refusal_of(http.get(f"/agents/{quote(name)}"), 404)
    assert http.get(f"/v1/agents/{agent['id']}").status_code == 404


def test_json_has_the_form_of_the_file_and_an_idempotency_key_makes_one_agent(
    http: httpx.Client,
) -> None:
    wanted = {
        "name": unique("ada"),
        "system_prompt": "You are kind.",
        "model": MODEL,
        "embedding": EMBEDDING,
        "memory": [{"label": "human", "value": "Name: Ada"}],
    }
    key = {"idempotency-key": unique("key")}

    first, again = [http.post("/agents", json=wanted, headers=key) for _ in range(2)]
    without_key = http.post("/agents", json=wanted)

    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert first.json()["memory"][0]["value"] == "Name: Ada"
    assert first.json()["id"] in refusal_of(without_key, 409)
    assert without_key.json()["ids"] == [first.json()["id"]]


def test_an_agent_is_asked_with_one_text(http: httpx.Client, new_agent: NewAgent) -> None:
    agent = new_agent(name=unique("the one"))

    reply = http.post(f"/agents/{quote(agent.name)}/message", json={"message": "Good morning"})

    assert reply.status_code == 200, reply.text
    answer = reply.json()
    assert answer["answer"] == HELLO
    assert answer["agent_id"] == agent.id
    assert answer["stop_reason"] == "end_turn"
    assert answer["usage"]["step_count"] == 1
    run = http.get(f"/v1/runs/{answer['run_id']}").json()
    assert (run["agent_id"], run["status"]) == (agent.id, "completed")
    [message] = answer["messages"]
    assert message["content"] == HELLO
    listed = http.get(f"/v1/agents/{agent.id}/messages").json()
    assert "Good morning" in [message.get("content") for message in listed]


def test_a_model_that_fails_is_told_in_a_sentence(http: httpx.Client, new_agent: NewAgent) -> None:
    agent = new_agent()

    reply = http.post(f"/agents/{agent.id}/message", json={"message": "FAIL:401 hello"})

    assert refusal_of(reply, 401)
    assert list(reply.json()) == ["detail"]


def test_a_name_of_several_agents_names_their_ids(http: httpx.Client, new_agent: NewAgent) -> None:
    name = unique("twin")
    ids = [new_agent(name=name).id for _ in range(2)]
    path = f"/agents/{name}"

    refused = [
        http.get(path),
        http.delete(path),
        http.post(f"{path}/message", json={"message": "Which?"}),
    ]

    for answer in refused:
        detail = refusal_of(answer, 409)
        assert all(agent_id in detail for agent_id in ids)
        assert answer.json()["ids"] == ids
    assert http.delete(f"/agents/{ids[0]}").status_code == 204
    assert http.get(path).json()["id"] == ids[1]


def test_agents_are_listed_in_pages(http: httpx.Client, new_agent: NewAgent) -> None:
    tag = unique("listed")
    ids = [new_agent(tags=[tag]).id for _ in range(3)]
    seen, after, pages = [], None, 0
    while True:
        query: dict[str, Any] = {
            "tag": tag,
            "limit": 2,
            "order": "asc",
            **({"after": after} if after else {}),
        }
        page = http.get("/agents", params=query).json()
        seen += [agent["id"] for agent in page["agents"]]
        after, pages = page["next"], pages + 1
        if after is None:
            break

    assert (seen, pages) == (ids, 2)
    newest = http.get("/agents", params={"tag": tag, "limit": 3}).json()
    assert [agent["id"] for agent in newest["agents"]] == ids[::-1]
    assert newest["next"] is None, "a full page may be the last"
    by_name = http.get("/agents", params={"name": newest["agents"][0]["name"]}).json()
    assert [agent["id"] for agent in by_name["agents"]] == [ids[2]]


def test_all_that_is_wrong_in_a_file_is_said_at_once(http: httpx.Client) -> None:
    name = unique("wrong")
    text = f'name = "{name}"\nmodle = "{MODEL}"\ntags = "friendly"\n'.encode()

    answer = post_toml(http, text)

    assert "2 more problems" in refusal_of(answer, 422)
    problems = {problem["field"]: problem for problem in answer.json()["problems"]}
    assert problems["modle"]["suggestion"] == "model"
    assert (problems["modle"]["line"], problems["tags"]["line"]) == (2, 3)
    assert problems["tags"]["severity"] == "error"
    assert http.get(f"/agents/{name}").status_code == 404


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ('[[schedules]]\nname = "daily"\nevery = "1d"\nmessage = "Report"\n', "schedules"),
        ('[[groups]]\nname = "crew"\n', "groups"),
        ('[permissions]\ntools = ["conversation_search"]\n', "permissions"),
        ('[[memory]]\nlabel = "team"\nshared = true\n', "memory[1].shared"),
    ],
)
def test_what_one_request_cannot_make_is_refused_with_the_way_to_it(
    http: httpx.Client, more: str, field: str
) -> None:
    name = unique("whole")

    answer = post_toml(http, toml(name, more))

    refusal_of(answer, 422)
    [problem] = [problem for problem in answer.json()["problems"] if problem["field"] == field]
    assert "heeler apply" in problem["expected"]
    assert problem["line"] > 1
    assert http.get(f"/agents/{name}").status_code == 404


@pytest.mark.parametrize(
    ("wrong", "names"),
    [
        ({"model": "openai/nobody"}, "openai/nobody"),
        ({"tools": ["no_such_tool"]}, "no_such_tool"),
        ({"embedding": "nobody/nothing"}, "nobody/nothing"),
    ],
)
def test_what_the_server_does_not_have_is_a_wrong_field(
    http: httpx.Client, wrong: dict[str, Any], names: str
) -> None:
    fields = {"name": unique("ada"), "system_prompt": "You are kind.", "model": MODEL}

    answer = http.post("/agents", json={**fields, **wrong})

    detail = refusal_of(answer, 422)
    assert names in detail
    assert not detail.startswith("NOT_FOUND")
    assert http.get(f"/agents/{fields['name']}").status_code == 404


def test_a_file_that_needs_another_one_beside_it_is_refused(http: httpx.Client) -> None:
    text = f'name = "{unique("ada")}"\nsystem_prompt_file = "ada.md"\n'.encode()

    answer = post_toml(http, text)

    assert "ada.md" in refusal_of(answer, 422)
    assert "heeler apply" in answer.text


@pytest.mark.parametrize(
    ("method", "path", "how", "status", "names"),
    [
        ("GET", "/agents?limit=1000", {}, 422, "limit"),
        ("GET", "/agents?limt=10", {}, 422, "limit"),
        ("GET", f"/agents?after=agent-{NOBODY}", {}, 400, "after"),
        ("GET", f"/agents/agent-{NOBODY}", {}, 404, NOBODY),
        ("GET", "/agents/no%2Fbody", {}, 404, "no/body"),
        ("DELETE", f"/agents/agent-{NOBODY}", {}, 404, NOBODY),
        ("POST", "/agents/nobody/message", {"json": {"message": "hi"}}, 404, "nobody"),
        ("POST", "/agents/nobody/message", {"json": {"mesage": "hi"}}, 422, "message"),
        ("POST", "/agents/nobody/message", {"json": {"message": ""}}, 422, "message"),
        ("POST", "/agents/nobody/message", {"content": b'{"message":'}, 422, "line 1"),
        ("POST", "/agents", {"json": []}, 422, "object"),
        ("POST", "/agents", {"json": {"nam": "ada"}}, 422, "name"),
        ("POST", "/agents", {"data": {"name": "ada"}}, 415, "application/toml"),
        ("PATCH", f"/agents/agent-{NOBODY}", {"json": {}}, 405, "Not Allowed"),
        ("PUT", "/agents", {"json": {}}, 405, "Not Allowed"),
        ("GET", "/agents/nobody/message", {}, 405, "Not Allowed"),
        ("GET", "/agents/nobody/messages", {}, 404, "Not Found"),
    ],
)
def test_a_refusal_has_its_status_and_one_form(
    http: httpx.Client, method: str, path: str, how: dict[str, Any], status: int, names: str
) -> None:
    answer = http.request(method, path, **how)

    assert names in refusal_of(answer, status)
    assert answer.json().keys() <= {"detail", "problems"}


def test_the_examples_of_the_page_run(
    http: httpx.Client, heeler: HeelerInstance, tmp_path: Path
) -> None:
    [example] = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    file_name = unique("bob")
    (tmp_path / "ada.toml").write_bytes(toml(file_name))
    for name in ("Ada", file_name):
        assert http.get(f"/agents/{name}").status_code == 404, "no agent has the name yet"

    subprocess.run(
        ["bash", "-euc", example.replace("curl ", "curl -sS --fail-with-body ")],
        cwd=tmp_path,
        env={**os.environ, "HEELER": heeler.base_url},
        check=True,
        timeout=SECONDS_MAX,
    )

    assert http.get("/agents/Ada").status_code == 404, "the last line deletes it"
    assert http.get(f"/agents/{file_name}").status_code == 200


def test_a_file_that_is_too_large_is_refused(http: httpx.Client) -> None:
    text = f'name = "large"\nsystem_prompt = "{"x" * (512 << 10)}"\n'
    answer = http.post("/agents", content=text, headers={"content-type": "application/toml"})
    assert answer.status_code == 422
    assert "may have 524288" in answer.text
