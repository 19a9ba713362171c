"""Agents as files: exported, deleted and imported again, copied and forked."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from letta_client import Letta
from letta_client.types import AgentState

from benchmarks.agent_round_trip import digest_of, long_agent, write
from services.api.http.connection_limits import UPLOAD_BYTES_MAX
from tests.e2e.asking import says, tool_call, unique
from tests.e2e.conftest import NewAgent, NewTool
from tests.waiting import wait_for

OWN_ID = re.compile(
    r"(agent|conv|block|message|run|step|archive|passage)-[0-9a-f]{8}-[0-9a-f-]{27}"
)

EVERYTHING = "&".join(
    f"include=agent.{name}"
    for name in ("blocks", "identities", "managed_group", "secrets", "sources", "tags", "tools")
)


def exported(http: httpx.Client, agent_id: str, **headers: str) -> bytes:
    """An agent as a file of the full form."""
    answer = http.get(f"/v1/agents/{agent_id}/export?format=heeler", headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/gzip"
    assert "attachment" in answer.headers["content-disposition"]
    return answer.content


def lines_of(file: bytes) -> list[dict[str, Any]]:
    """The lines of a file."""
    return [json.loads(line) for line in gzip.decompress(file).splitlines()]


def file_of(lines: list[dict[str, Any]]) -> bytes:
    """A file with these lines, and the footer that they have."""
    raw = [json.dumps(line).encode() + b"\n" for line in lines]
    counts = Counter(line["kind"] for line in lines)
    digest = hashlib.sha256(b"".join(raw)).hexdigest()
    footer = {"kind": "footer", "counts": counts, "sha256": digest}
    return gzip.compress(b"".join([*raw, json.dumps(footer).encode() + b"\n"]))


def topics_of(file: bytes) -> Counter[str]:
    """How many events of each topic a file has, which has to be there to its end."""
    *lines, last = lines_of(file)
    assert last["kind"] == "footer"
    histories = [line["history"] for line in lines if line["kind"] == "history"]
    return Counter(event["topic"] for history in histories for event in history["events"])


def imported(http: httpx.Client, file: bytes, **fields: str) -> httpx.Response:
    """The answer to the import of a file."""
    return http.post("/v1/agents/import", files={"file": ("agent.heeler.gz", file)}, data=fields)


def dump(http: httpx.Client, agent_id: str) -> dict[str, Any]:
    """Everything that the API says of an agent."""

    def get(path: str) -> Any:
        answer = http.get(path)
        assert answer.status_code == 200, f"{path}: {answer.text}"
        return answer.json()

    return {
        "agent": get(f"/v1/agents/{agent_id}?{EVERYTHING}"),
        "messages": get(f"/v1/agents/{agent_id}/messages?limit=1000"),
        "blocks": get(f"/v1/agents/{agent_id}/core-memory/blocks"),
        "tools": get(f"/v1/agents/{agent_id}/tools"),
        "context": get(f"/v1/agents/{agent_id}/context"),
        "runs": get(f"/v1/runs/?agent_id={agent_id}"),
        "conversations": get(f"/v1/conversations/?agent_id={agent_id}"),
        "archives": get(f"/v1/archives/?agent_id={agent_id}"),
        "passages": get(f"/v1/agents/{agent_id}/archival-memory?limit=100"),
    }


@pytest.fixture
def rich_agent(letta: Letta, http: httpx.Client, new_agent: NewAgent) -> AgentState:
    """An agent with a bit of everything."""
    agent = new_agent(
        name=unique("rich"),
        memory_blocks=[
            {"label": "human", "value": "Name: Ada"},
            {"label": "persona", "value": "I am kind."},
        ],
        tags=["one", "two"],
        metadata={"huge": 1e300, "order": {"z": 1, "a": 2}},
    )
    letta.agents.messages.create(agent.id, messages=says("Hello"))
    letta.agents.messages.create(
        agent.id,
        messages=says(tool_call("memory_insert", label="human", new_string="Likes tea.")),
    )
    letta.agents.passages.create(agent.id, text="The sky over Bern was red.", tags=["sky"])
    return agent


@pytest.mark.operation("POST /v1/agents/import")
@pytest.mark.operation("GET /v1/agents/{agent_id}/export")
def test_an_exported_and_deleted_agent_is_the_same_after_its_import(
    letta: Letta, http: httpx.Client, rich_agent: AgentState
) -> None:
    before = dump(http, rich_agent.id)
    file = exported(http, rich_agent.id)
    letta.agents.delete(rich_agent.id)
    answer = imported(http, file, conflicts="replace")
    assert answer.status_code == 200, answer.text
    assert answer.json() == {"agent_ids": [rich_agent.id]}
    after = dump(http, rich_agent.id)
    assert after == before
    letta.agents.messages.create(rich_agent.id, messages=says("Hello again"))


@pytest.mark.parametrize(
    "asked", [{"scrub_messages": True}, {"conversation_id": "conv-1"}, {"use_legacy_format": True}]
)
def test_a_file_of_everything_cannot_be_asked_for_without_something(
    http: httpx.Client, rich_agent: AgentState, asked: dict[str, Any]
) -> None:
    answer = http.get(f"/v1/agents/{rich_agent.id}/export", params={**asked, "format": "heeler"})
    assert answer.status_code == 422, answer.text
    assert f"`{next(iter(asked))}` has no effect on `format=heeler`" in answer.text


def test_a_file_larger_than_bodies_may_be_is_kept_as_it_comes(http: httpx.Client) -> None:
    answer = imported(http, bytes(UPLOAD_BYTES_MAX + 1))
    assert (answer.status_code, answer.json()["errors"][0]["entry"]) == (422, "the file")


def test_a_file_that_is_imported_twice_makes_two_agents(
    letta: Letta, http: httpx.Client, rich_agent: AgentState
) -> None:
    file = exported(http, rich_agent.id)
    first, second = (imported(http, file).json()["agent_ids"][0] for _ in range(2))
    assert len({first, second, rich_agent.id}) == 3
    original, copy = dump(http, rich_agent.id), dump(http, first)
    assert [texts(message) for message in copy["messages"]] == [
        texts(message) for message in original["messages"]
    ]
    assert ids_in(copy) & ids_in(original) <= {tool["id"] for tool in original["tools"]}
    letta.agents.blocks.update("human", agent_id=first, value="Name: Grace")
    assert dump(http, rich_agent.id) == original, "the copy goes its own way"
    letta.agents.messages.create(second, messages=says("Hello again"))


@pytest.mark.parametrize("name", ["foreground", "background"])
def test_an_import_that_is_sent_again_is_answered_as_its_form_says(
    http: httpx.Client, rich_agent: AgentState, name: str
) -> None:
    file = exported(http, rich_agent.id)
    asked: dict[str, Any] = {
        "files": {"file": ("agents.ndjson", file)},
        "data": {"conflicts": "copy"} | ({"background": "true"} if name == "background" else {}),
        "headers": {"idempotency-key": str(uuid4())},
    }
    first, again = (http.post("/v1/agents/import", **asked) for _ in range(2))
    assert (again.status_code, again.headers["location"]) == (
        first.status_code,
        first.headers["location"],
    )
    assert ({"status", "id"} <= again.json().keys()) is (name == "background")


def test_an_import_is_forgotten_with_the_last_of_its_agents(
    http: httpx.Client, rich_agent: AgentState
) -> None:
    asked: dict[str, Any] = {
        "files": {"file": ("agents.ndjson", exported(http, rich_agent.id))},
        "data": {"conflicts": "copy"},
        "headers": {"idempotency-key": str(uuid4())},
    }
    key = {"idempotency-key": str(uuid4())}
    at_fork = f"/v1/agents/{rich_agent.id}/fork"
    made = http.post("/v1/agents/import", **asked)
    fork = http.post(at_fork, headers=key)
    for agent_id in (*made.json()["agent_ids"], fork.json()["id"]):
        assert http.delete(f"/v1/agents/{agent_id}").status_code == 200
    at = made.headers["location"]
    asyncio.run(wait_for("it is forgotten", lambda: http.get(at).status_code == 404))
    again = http.post("/v1/agents/import", **asked)
    assert (again.status_code, "forgotten" in again.json()["detail"]) == (410, True)

    def is_gone() -> bool:
        return http.post(at_fork, headers=key).status_code == 410

    asyncio.run(wait_for("the fork is forgotten", is_gone))


def test_a_file_without_a_block_of_its_agent_gets_no_block_of_another_one(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    shared = letta.blocks.create(label="shared", value="Secret.")
    agent = new_agent(block_ids=[shared.id])
    header, *lines = lines_of(exported(http, agent.id))
    kept = [line for line in lines[:-1] if line.get("history", {}).get("aggregate_id") != shared.id]
    file = file_of([header, *kept])
    answer = imported(http, file, conflicts="copy")
    assert answer.status_code == 422, answer.text
    [error] = answer.json()["errors"]
    assert shared.id in error["message"]
    assert error["entry"].startswith("line ")
    letta.blocks.delete(shared.id)
    assert imported(http, file, conflicts="copy").status_code == 200, "nobody has it any more"


@pytest.mark.parametrize("policy", [{"conflicts": "copy"}, {}], ids=["copy", "default"])
def test_a_copy_has_the_tools_that_its_origin_has(
    http: httpx.Client, new_agent: NewAgent, new_tool: NewTool, policy: dict[str, str]
) -> None:
    tool = new_tool("return 4")
    agent = new_agent(tool_ids=[tool.id])
    [copy] = imported(http, exported(http, agent.id), **policy).json()["agent_ids"]
    tools = [http.get(f"/v1/agents/{agent_id}/tools").json() for agent_id in (agent.id, copy)]
    assert tools[0] == tools[1]
    assert tool.id in {each["id"] for each in tools[1]}


def test_a_fork_is_what_its_origin_is_and_goes_its_own_way(
    letta: Letta, http: httpx.Client, rich_agent: AgentState
) -> None:
    before = dump(http, rich_agent.id)
    answer = http.post(f"/v1/agents/{rich_agent.id}/fork", json={"name": unique("fork")})
    assert answer.status_code == 200, answer.text
    fork = answer.json()
    copy = dump(http, fork["id"])
    assert [texts(message) for message in copy["messages"]] == [
        texts(message) for message in before["messages"]
    ]
    assert [passage["text"] for passage in copy["passages"]] == ["The sky over Bern was red."]
    letta.agents.messages.create(
        fork["id"],
        messages=says(tool_call("memory_insert", label="human", new_string="Likes forks.")),
    )
    assert dump(http, rich_agent.id) == before, "the origin is as it was"
    assert "Likes forks." in json.dumps(dump(http, fork["id"])["blocks"])
    for agent_id in (rich_agent.id, fork["id"]):
        events = http.get(f"/v1/agents/{agent_id}/events?topic=agent.forked&limit=10")
        assert [event["topic"] for event in events.json()] == ["agent.forked"]


def test_a_deleted_agent_is_had_back_by_a_fork_of_a_moment_before(
    http: httpx.Client, rich_agent: AgentState
) -> None:
    before = dump(http, rich_agent.id)
    [last] = http.get(f"/v1/agents/{rich_agent.id}/events?limit=1&order=desc").json()
    assert http.delete(f"/v1/agents/{rich_agent.id}").status_code == 200
    assert http.post(f"/v1/agents/{rich_agent.id}/fork").status_code == 404

    answer = http.post(f"/v1/agents/{rich_agent.id}/fork", json={"at": last["id"]})

    assert answer.status_code == 200, answer.text
    back = dump(http, answer.json()["id"])
    assert [texts(message) for message in back["messages"]] == [
        texts(message) for message in before["messages"]
    ]
    assert [block["value"] for block in back["blocks"]] == [
        block["value"] for block in before["blocks"]
    ]


def test_a_fork_of_the_past_has_nothing_of_what_came_since(
    letta: Letta, http: httpx.Client, rich_agent: AgentState
) -> None:
    before = dump(http, rich_agent.id)
    at = http.get(f"/v1/agents/{rich_agent.id}/events?limit=1&order=desc").json()[0]["id"]
    letta.agents.messages.create(
        rich_agent.id,
        messages=says(tool_call("memory_insert", label="human", new_string="Later.")),
    )
    letta.agents.passages.create(rich_agent.id, text="Later, too.")
    answer = http.post(f"/v1/agents/{rich_agent.id}/fork", json={"at": at})
    assert answer.status_code == 200, answer.text
    copy = dump(http, answer.json()["id"])
    assert [texts(message) for message in copy["messages"]] == [
        texts(message) for message in before["messages"]
    ]
    assert "Later" not in json.dumps(copy)


def test_a_fork_of_the_past_has_the_identities_and_projects_of_then(
    http: httpx.Client, new_agent: NewAgent
) -> None:
    agent, names = new_agent(), [unique("owner") for _ in range(2)]

    def made(path: str, **body: Any) -> str:
        answer = http.post(path, json=body)
        assert answer.is_success, answer.text
        return str(answer.json()["id"])

    people = [
        made("/v1/identities", identifier_key=name, name=name, identity_type="user")
        for name in names
    ]
    projects = [made("/v1/projects", name=name) for name in names]

    def give(number: int) -> None:
        changed = http.patch(f"/v1/agents/{agent.id}", json={"identity_ids": [people[number]]})
        assert changed.is_success, changed.text
        http.delete(f"/v1/projects/{projects[1 - number]}/agents/{agent.id}").raise_for_status()
        members = f"/v1/projects/{projects[number]}/agents"
        http.post(members, json={"agent_ids": [agent.id]}).raise_for_status()

    give(0)
    at = datetime.now(UTC).isoformat()
    give(1)
    for moment, number in ((at, 0), (None, 1)):
        answer = http.post(f"/v1/agents/{agent.id}/fork", json={"at": moment} if moment else {})
        assert answer.status_code == 200, answer.text
        fork = answer.json()["id"]
        shown = http.get(f"/v1/agents/{fork}?include=agent.identities").json()
        assert [each["id"] for each in shown["identities"]] == [people[number]]
        in_project = [
            project
            for project in projects
            if fork in http.get(f"/v1/projects/{project}/agents").text
        ]
        assert in_project == [projects[number]]


def test_an_agent_of_the_retired_server_comes_by_its_file(
    letta: Letta, http: httpx.Client, rich_agent: AgentState
) -> None:
    file = http.get(f"/v1/agents/{rich_agent.id}/export").content
    answer = imported(http, file, append_copy_suffix="true", secrets=json.dumps({"KEY": "x"}))
    assert answer.status_code == 200, answer.text
    [agent_id] = answer.json()["agent_ids"]
    agent = http.get(f"/v1/agents/{agent_id}?{EVERYTHING}").json()
    assert agent["name"] == f"{rich_agent.name}_copy"
    assert [(secret["key"], secret["value"]) for secret in agent["secrets"]] == [("KEY", "x")]
    assert agent["memory"]["blocks"][0]["value"].endswith("Likes tea.")
    letta.agents.messages.create(agent_id, messages=says("Hello again"))


def test_what_an_agent_uses_comes_with_it(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    name = unique("tool").replace("-", "_")
    source = f'def {name}() -> str:\n    """Say hello."""\n    return "hello"\n'
    tool = http.post("/v1/tools", json={"source_code": source}).json()
    folder = http.post("/v1/folders", json={"name": unique("folder")}).json()
    text = {"file": ("notes.txt", b"Ada keeps bees.", "text/plain")}
    file = http.post(f"/v1/folders/{folder['id']}/upload", files=text).json()
    agent = new_agent(tool_ids=[tool["id"]], folder_ids=[folder["id"]], secrets={"TOKEN": "s3cret"})
    schedule = {
        "schedule": {"type": "recurring", "cron_expression": "0 3 * * *"},
        "messages": says("Good night"),
    }
    made = http.post(f"/v1/agents/{agent.id}/schedule", json=schedule)
    assert made.status_code < 300, made.text

    def is_embedded() -> bool:
        path = f"/v1/folders/{folder['id']}/files/{file['id']}"
        return bool(http.get(path).json()["processing_status"] == "completed")

    asyncio.run(wait_for("the file is embedded", is_embedded))
    sealed = exported(http, agent.id, **{"x-heeler-passphrase": "correct horse"})
    assert b"s3cret" not in gzip.decompress(sealed)
    kinds = [line["kind"] for line in lines_of(sealed)]
    assert {"definition", "history", "file_text", "secrets"} <= set(kinds)
    letta.agents.delete(agent.id)
    letta.tools.delete(tool["id"])
    http.delete(f"/v1/folders/{folder['id']}")

    wrong = imported(http, sealed, conflicts="replace", passphrase="battery staple")
    assert (wrong.status_code, wrong.json()["errors"][0]["entry"]) == (422, "passphrase")
    assert http.get(f"/v1/agents/{agent.id}").status_code == 404

    answer = imported(http, sealed, conflicts="replace", passphrase="correct horse")
    assert answer.status_code == 200, answer.text
    again = http.get(f"/v1/agents/{agent.id}?{EVERYTHING}").json()
    assert [(secret["key"], secret["value"]) for secret in again["secrets"]] == [
        ("TOKEN", "s3cret")
    ]
    [custom] = [each for each in again["tools"] if each["name"] == name]
    assert custom["source_code"] == source
    assert custom["default_requires_approval"] is True, "nobody has accepted it yet"
    [seen] = again["sources"]
    assert seen["name"] == folder["name"]
    assert asyncio.run(wait_for("the file is read", lambda: texts_of_files(http, seen["id"]))) == [
        ("notes.txt", "Ada keeps bees.")
    ]
    assert len(http.get(f"/v1/agents/{agent.id}/schedule").json()["scheduled_messages"]) == 1


def test_a_manager_comes_with_its_group(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent(
        name=unique("manager"),
        memory_blocks=[{"label": "human", "value": "Name: Ada"}],
        enable_sleeptime=True,
    )
    group = http.get(f"/v1/agents/{agent.id}?{EVERYTHING}").json()["managed_group"]
    file = exported(http, agent.id)
    agent_ids = imported(http, file).json()["agent_ids"]
    assert len(agent_ids) == 2
    copy = http.get(f"/v1/agents/{agent_ids[0]}?{EVERYTHING}").json()
    assert copy["managed_group"]["agent_ids"] == agent_ids[1:]
    assert copy["managed_group"]["manager_type"] == group["manager_type"] == "sleeptime"
    assert copy["managed_group"]["id"] != group["id"]
    shown = [http.get(f"/v1/agents/{each}/core-memory/blocks").json() for each in agent_ids]
    shared = {block["id"] for block in shown[0]} & {block["id"] for block in shown[1]}
    assert len(shared) == 1, "they share the block that the origin shares with its reviewer"
    letta.agents.messages.create(agent_ids[0], messages=says("Hello"))


def test_a_call_that_waits_for_an_approval_waits_in_a_fork_too(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent(
        memory_blocks=[{"label": "human", "value": "Name: Ada"}],
        tool_rules=[{"type": "requires_approval", "tool_name": "memory_insert"}],
    )
    asked = letta.agents.messages.create(
        agent.id,
        messages=says(tool_call("memory_insert", label="human", new_string="Likes tea.")),
    )
    assert asked.stop_reason.stop_reason == "requires_approval"
    fork = http.post(f"/v1/agents/{agent.id}/fork").json()["id"]
    for agent_id in (fork, agent.id):
        [request] = [
            message
            for message in http.get(f"/v1/agents/{agent_id}/messages?limit=100").json()
            if message["message_type"] == "approval_request_message"
        ]
        answer = {
            "type": "approval",
            "approve": True,
            "approval_request_id": request["id"],
        }
        went_on = http.post(f"/v1/agents/{agent_id}/messages", json={"messages": [answer]})
        assert went_on.status_code == 200, went_on.text
        assert went_on.json()["stop_reason"]["stop_reason"] == "end_turn"
        blocks = http.get(f"/v1/agents/{agent_id}/core-memory/blocks").json()
        assert [block["value"] for block in blocks] == ["Name: Ada\nLikes tea."]


def test_a_run_that_is_under_way_ends_with_the_fork_and_goes_on_in_its_origin(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    slow = {"messages": says("SLOW:3000")}
    run = http.post(f"/v1/agents/{agent.id}/messages/async", json=slow).json()
    fork = http.post(f"/v1/agents/{agent.id}/fork")
    assert fork.status_code == 200, fork.text
    [copied] = http.get(f"/v1/runs/?agent_id={fork.json()['id']}").json()
    assert copied["status"] in ("cancelled", "completed")
    letta.agents.messages.create(fork.json()["id"], messages=says("Hello"))
    path = f"/v1/runs/{run['id']}"

    def is_completed() -> bool:
        return bool(http.get(path).json()["status"] == "completed")

    asyncio.run(wait_for("the run of the origin", is_completed))


def test_a_long_history_comes_back_as_it_was(
    letta: Letta, http: httpx.Client, tmp_path: Path
) -> None:
    made, agent_id = tmp_path / "made.gz", f"agent-{uuid4()}"
    write(long_agent(agent_id, 1_500, 150), made)
    assert imported(http, made.read_bytes()).json()["agent_ids"] == [agent_id]
    before = digest_of(http, agent_id)
    file = exported(http, agent_id)
    letta.agents.delete(agent_id)
    assert imported(http, file, conflicts="replace").json()["agent_ids"] == [agent_id]
    assert digest_of(http, agent_id) == before
    assert before[1] == 1_500


def test_exports_and_imports_at_the_same_time_are_each_whole(
    http: httpx.Client, rich_agent: AgentState
) -> None:
    file = exported(http, rich_agent.id)
    appended = topics_of(file)["message.appended"]
    assert appended > 4
    assert http.delete(f"/v1/agents/{rich_agent.id}").status_code == 200

    def both(_: int) -> tuple[int, httpx.Response]:
        made = imported(http, file, conflicts="fail")
        return made.status_code, http.get(f"/v1/agents/{rich_agent.id}/export?format=heeler")

    with ThreadPoolExecutor(3) as threads:
        answers = [*threads.map(both, range(3))]

    codes = sorted(code for code, _ in answers)
    for _, export in answers:
        assert export.status_code in (200, 404), export.text
        if export.status_code == 200:
            assert topics_of(export.content)["message.appended"] == appended, "all or nothing"
    assert codes[0] == 200, codes
    assert set(codes[1:]) <= {409}, codes
    messages = [texts(message) for message in dump(http, rich_agent.id)["messages"]]
    assert len(messages) > 4
    again = imported(http, exported(http, rich_agent.id), conflicts="copy").json()["agent_ids"][0]
    assert [texts(message) for message in dump(http, again)["messages"]] == messages


def test_of_imports_that_replace_an_agent_at_the_same_time_one_at_least_is_whole(
    letta: Letta, http: httpx.Client, rich_agent: AgentState
) -> None:
    before = dump(http, rich_agent.id)
    file = exported(http, rich_agent.id)
    with ThreadPoolExecutor(3) as threads:
        answers = [*threads.map(lambda _: imported(http, file, conflicts="replace"), range(3))]
    assert {answer.status_code for answer in answers} <= {200, 409}, answers
    assert 200 in {answer.status_code for answer in answers}
    for answer in answers:
        if answer.status_code == 409:
            path = f"/v1/imports/{answer.json()['import_id']}"
            ended = asyncio.run(wait_for("its end", lambda path=path: ended_import(http, path)))
            assert ended["status"] == "failed"
    assert dump(http, rich_agent.id) == before
    letta.agents.messages.create(rich_agent.id, messages=says("Hello again"))


def test_an_import_that_is_cancelled_or_in_the_way_leaves_nothing(
    letta: Letta, http: httpx.Client, rich_agent: AgentState
) -> None:
    file = exported(http, rich_agent.id)
    agents = http.get("/v1/agents/count").json()
    refused = imported(http, file, conflicts="fail")
    assert refused.status_code == 409, refused.text
    assert rich_agent.id in [error["entry"] for error in refused.json()["errors"]]
    damaged = imported(http, file[:-20])
    assert (damaged.status_code, damaged.json()["errors"][0]["entry"]) == (422, "file")
    begun = imported(http, file, background="true")
    assert begun.status_code == 202
    path = f"/v1/imports/{begun.json()['id']}"
    assert begun.headers["location"] == path
    cancelled = http.post(f"{path}/cancel")
    ended = asyncio.run(wait_for("its end", lambda: ended_import(http, path)))
    if cancelled.status_code == 200:
        assert ended["status"] == "cancelled"
    else:  # it was there already
        assert (cancelled.status_code, ended["status"]) == (409, "completed")
        letta.agents.delete(ended["agent_ids"][0])
    assert http.get("/v1/agents/count").json() == agents
    assert http.get(f"/v1/imports/import-{uuid4()}").status_code == 404


def test_an_agent_that_could_not_be_replaced_is_as_it_was(
    letta: Letta, http: httpx.Client, rich_agent: AgentState
) -> None:
    folder = letta.folders.create(name=unique("books"), embedding="letta/letta-free")
    letta.agents.folders.attach(folder.id, agent_id=rich_agent.id)
    before = dump(http, rich_agent.id)
    lines = lines_of(exported(http, rich_agent.id))[:-1]
    for line in lines:
        if line["kind"] == "history" and line["history"]["aggregate_id"].startswith("conv-"):
            events = line["history"]["events"]
            line["history"]["events"] = [
                event for event in events if event["topic"] != "run.completed"
            ]
    refused = imported(http, file_of(lines), conflicts="replace")
    assert refused.status_code == 422, refused.text
    path = f"/v1/imports/{refused.json()['import_id']}"
    ended = asyncio.run(wait_for("its end", lambda: ended_import(http, path)))
    assert ended["status"] == "failed"
    assert dump(http, rich_agent.id) == before
    letta.agents.messages.create(rich_agent.id, messages=says("Hello again"))


def ended_import(http: httpx.Client, path: str) -> Any:
    """An import that has ended."""
    found = http.get(path).json()
    return found if found["completed_at"] else None


def texts_of_files(http: httpx.Client, folder_id: str) -> list[tuple[str, str]]:
    """The names and the texts of the files of a folder that have been read."""
    files = http.get(f"/v1/folders/{folder_id}/files?include_content=true").json()
    return [(file["file_name"], file["content"]) for file in files if file["content"]]


def texts(message: dict[str, Any]) -> str:
    """What a message says, whatever the ids are of what it names."""
    said = {name: message.get(name) for name in ("message_type", "content", "tool_return")}
    return OWN_ID.sub("<id>", json.dumps(said))


def ids_in(value: Any) -> set[str]:
    """The ids of agents, blocks, messages, runs and archives in an answer."""
    text = json.dumps(value)
    return {found.group() for found in OWN_ID.finditer(text)}
