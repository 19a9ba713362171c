"""The database of a genuine Letta server 0.16.8 moves in, and its clients see no difference."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest

from deploy.embedded.settings import CHECKOUT
from libs.contracts.agent.conversations import main_conversation
from tests.e2e.asking import SECONDS_MAX
from tests.e2e.letta_differences import ALLOWED, KINDS_MAX, is_said, unexplained, unpacked
from tests.letta_database import RECORDED, load
from tests.scripted_model import ScriptedModelProcess
from tests.servers import HeelerInstance

GHOST = "agent-32206d98-7d6c-4ec3-a249-3f860eb6032a"
CASHIER = "agent-3fde84cf-7d54-4bde-8b40-7f5a3298944b"
EVERYTHING = [
    f"agent.{name}"
    for name in (
        "blocks", "identities", "managed_group", "pending_approval", "secrets", "sources", "tags",
        "tools",
    )
]  # fmt: skip


def expected(name: str) -> Any:
    """What the old server's API answered."""
    return json.loads((RECORDED / "expected" / f"{name}.json").read_text())


PAGE = CHECKOUT / "docs" / "moving-in.md"
SHOWN_ADDRESS = "postgres://letta:letta@localhost:5432/letta"
AGENT_IDS = [agent["id"] for agent in expected("agents")]


class OldServer:
    """The database of the old server, beside that of the new one."""

    def __init__(self, heeler: HeelerInstance) -> None:
        self.heeler = heeler
        with psycopg.connect(heeler.database_url, autocommit=True) as connection:
            connection.execute("create database letta_old")
        self.url = heeler.database_url.replace("/heeler", "/letta_old")
        load(self.url)

    def migrate(self, *words: str) -> subprocess.Popen[str]:
        """`heeler migrate letta`, as it goes on."""
        return subprocess.Popen(
            [self.heeler.python, "-m", "cli", "migrate", "letta", self.url, "--json", *words],
            cwd=self.heeler.checkout,
            env=self.heeler.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, command: str) -> str:
        """What a command of the page says when it has ended well."""
        done = subprocess.run(
            shlex.split(command.replace(SHOWN_ADDRESS, self.url)),
            cwd=self.heeler.checkout,
            env=self.heeler.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX * 2,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def report(self, *words: str) -> Any:
        """What a migration reports when it has ended well."""
        running = self.migrate(*words)
        told, said = running.communicate(timeout=SECONDS_MAX * 2)
        assert running.returncode == 0, said
        return json.loads(told)


@pytest.fixture(scope="module")
def old(heeler: HeelerInstance) -> OldServer:
    return OldServer(heeler)


@pytest.fixture(scope="module")
def report(old: OldServer) -> Any:
    """The report of a migration whose first attempt was killed while it sent."""
    first = old.migrate("--last")
    assert first.stderr is not None
    for line in first.stderr:
        if line.startswith("Send "):
            break
    first.kill()
    first.communicate()
    return old.report("--last")


def everything(http: httpx.Client, path: str, **query: Any) -> list[Any]:
    """All that a list has, the oldest first."""
    found: list[Any] = []
    after: dict[str, str] = {}
    while True:
        answer = http.get(path, params={"limit": 100, "order": "asc", **query, **after})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found += page
        if len(page) < 100:
            return found
        after = {"after": page[-1]["id"]}


def of_ids(found: list[Any], wanted: list[Any]) -> list[Any]:
    """Those of a list that the old server had, in its order."""
    by_id = {thing["id"]: thing for thing in found}
    return [by_id.get(thing["id"]) for thing in wanted]


def test_both_sides_have_the_same(report: Any) -> None:
    assert report["differences"] == []
    for name, table in report["tables"].items():
        assert table.get("found") == table.get("here"), name
        assert table.get("sha256") == table.get("sha256_here"), name
    assert report["tables"]["messages"]["found"] > 80


def test_agents_are_answered_as_before(report: Any, http: httpx.Client) -> None:
    told = expected("agents")
    got = [
        http.get(f"/v1/agents/{agent['id']}", params={"include": EVERYTHING}).json()
        for agent in told
    ]
    assert not unexplained(told, got, "agents")


@pytest.mark.parametrize("agent_id", AGENT_IDS)
def test_what_an_agent_has_is_answered_as_before(
    report: Any, http: httpx.Client, agent_id: str
) -> None:
    told = expected(agent_id)
    at = f"/v1/agents/{agent_id}"
    got = {
        "messages": everything(http, f"{at}/messages"),
        "core_memory": http.get(f"{at}/core-memory").json(),
        "passages": everything(http, f"{at}/archival-memory"),
        "tools": everything(http, f"{at}/tools"),
        "folders": everything(http, f"{at}/folders"),
        "files": http.get(f"{at}/files").json(),
        "context": http.get(f"{at}/context").json(),
    }
    for passage in got["passages"]:
        passage.pop("embedding", None)
    assert not unexplained(told, got, "agent")


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("archives", "/v1/archives/"),
        ("blocks", "/v1/blocks/"),
        ("folders", "/v1/folders/"),
        ("groups", "/v1/groups/"),
        ("identities", "/v1/identities/"),
        ("mcp_servers", "/v1/mcp-servers/"),
        ("runs", "/v1/runs/"),
    ],
)
def test_lists_are_answered_as_before(
    report: Any, http: httpx.Client, name: str, path: str
) -> None:
    told = expected(name)
    assert not unexplained(told, of_ids(everything(http, path), told), name)


def test_tools_are_answered_as_before(report: Any, http: httpx.Client) -> None:
    told = expected("tools")
    names = {tool["name"] for tool in told}
    answered = [tool for tool in everything(http, "/v1/tools/") if tool["name"] in names]
    assert not unexplained(told, answered, "tools")


def test_tags_and_sandboxes_are_answered_as_before(report: Any, http: httpx.Client) -> None:
    tags = http.get("/v1/tags/", params={"limit": 1000}).json()
    assert {*expected("tags")} <= {*tags}
    [local] = http.get("/v1/sandbox-config/").json()
    told = next(config for config in expected("sandbox") if config["type"] == "local")
    assert local["config"] == told["config"]


def test_folders_have_what_they_had(report: Any, http: httpx.Client) -> None:
    told = expected("folder-contents")
    [folder_id] = told
    at = f"/v1/folders/{folder_id}"
    answered = {
        "files": everything(http, f"{at}/files"),
        "passages": everything(http, f"{at}/passages"),
    }
    assert not unexplained(told, {folder_id: answered}, "folder-contents")
    words = {
        line.strip()
        for passage in told[folder_id]["passages"]
        for line in passage["text"].split("\n")
    }
    here = "\n".join(passage["text"] for passage in answered["passages"])
    assert all(line in here for line in words)


def test_conversations_are_answered_as_before(report: Any, http: httpx.Client) -> None:
    told = expected("conversations")
    agent_id = told[0]["agent_id"]
    answered = of_ids(everything(http, "/v1/conversations/", agent_id=agent_id), told)
    for conversation in answered:
        at = f"/v1/conversations/{conversation['id']}/messages"
        conversation["_messages"] = everything(http, at)
    assert not unexplained(told, answered, "conversations")


def test_every_difference_is_one_that_the_page_names() -> None:
    listed = tomllib.loads((CHECKOUT / "docs" / "differences.toml").read_text())["difference"]
    areas = {difference["area"] for difference in listed if "migrated agents" in difference["area"]}
    assert areas == {*ALLOWED}
    assert len(ALLOWED) <= KINDS_MAX


def test_a_second_migration_changes_nothing(
    report: Any, old: OldServer, http: httpx.Client
) -> None:
    before = [http.get(f"/v1/agents/{agent_id}/events").json()[0] for agent_id in AGENT_IDS]
    again = old.report("--last")
    assert again["differences"] == []
    after = [http.get(f"/v1/agents/{agent_id}/events").json()[0] for agent_id in AGENT_IDS]
    assert after == before


ADD_MESSAGE = """
insert into messages (id, agent_id, role, content, tool_calls, organization_id, created_at,
                      is_deleted)
select %(id)s, id, 'user', '[{"type": "text", "text": "New in the old server"}]', '[]',
       organization_id, now(), false
from agents where id = %(agent)s"""


def add_message(old: OldServer, agent_id: str) -> str:
    """Have an agent of the old server get a message; returns its id."""
    message_id = f"message-{uuid4()}"
    with psycopg.connect(old.url) as database:
        database.execute(ADD_MESSAGE, {"id": message_id, "agent": agent_id})
        database.execute(
            "update agents set message_ids = (message_ids::jsonb || to_jsonb(%s::text))::json"
            " where id = %s",
            [message_id, agent_id],
        )
    return message_id


def test_a_later_pass_brings_what_is_new(report: Any, old: OldServer, http: httpx.Client) -> None:
    message_id = add_message(old, GHOST)
    assert old.report()["differences"] == []
    assert everything(http, f"/v1/agents/{GHOST}/messages")[-1]["id"] == message_id
    assert http.get(f"/v1/agents/{GHOST}").json()["message_ids"][-1] == message_id


CHANGES = """
update mcp_server set server_name = 'archive-mcp', custom_headers_enc = '{"X-House": "Archive"}';
update archives set description = 'Changed there';
update sources set instructions = 'Changed there';
update identities set name = 'Changed there';"""


def test_a_later_pass_brings_what_was_changed(
    report: Any, old: OldServer, http: httpx.Client
) -> None:
    with psycopg.connect(old.url) as database:
        database.execute(CHANGES)
    assert old.report()["differences"] == []
    [server] = expected("mcp_servers")
    here = http.get(f"/v1/mcp-servers/{server['id']}").json()
    asked = {"server_name": "archive-mcp", "custom_headers": {"X-House": "Archive"}}
    assert {**here, **server, **asked} == here
    for path, field in (
        ("archives", "description"),
        ("folders", "instructions"),
        ("identities", "name"),
    ):
        told = expected(path)
        assert told
        here = of_ids(everything(http, f"/v1/{path}/"), told)
        assert {thing[field] for thing in here} == {"Changed there"}, path


PROJECT = "project-5d1f6d2e-1c0b-4f0e-9d50-0d7c1f0f6a11"
EMPTIED = """
update archives set description = null;
update sources set name = name || ' renamed', description = null;"""


def test_a_later_pass_brings_what_was_renamed_or_emptied(
    report: Any, old: OldServer, http: httpx.Client
) -> None:
    with psycopg.connect(old.url) as database:
        database.execute(EMPTIED)
    assert old.report()["differences"] == []
    folders = expected("folders")
    here = of_ids(everything(http, "/v1/folders/"), folders)
    assert {folder["name"] for folder in here} == {f"{told['name']} renamed" for told in folders}
    archives = of_ids(everything(http, "/v1/archives/"), expected("archives"))
    assert {thing["description"] for thing in [*here, *archives]} == {None}


def test_agents_that_join_a_project_later_are_in_it(
    report: Any, old: OldServer, http: httpx.Client
) -> None:
    for agent_id in AGENT_IDS[:2]:
        with psycopg.connect(old.url) as database:
            database.execute(
                "update agents set project_id = %s, updated_at = now() where id = %s",
                [PROJECT, agent_id],
            )
        assert old.report()["differences"] == []
        assert http.get(f"/v1/agents/{agent_id}").json()["project_id"] == PROJECT
    found = everything(http, "/v1/agents/", project_id=PROJECT)
    assert {agent["id"] for agent in found} == {*AGENT_IDS[:2]}


def test_every_command_of_the_page_does_what_it_says(
    report: Any, old: OldServer, http: httpx.Client
) -> None:
    block = re.findall(r"```sh\n(make migrate-letta .*?)```", PAGE.read_text(), re.DOTALL)[0]
    dry, whole, last = block.splitlines()
    message_id = add_message(old, GHOST)

    def is_here() -> bool:
        found = everything(http, f"/v1/agents/{GHOST}/messages")
        return any(message["id"] == message_id for message in found)

    assert re.search(r"^messages +1\b", old.run(dry), re.MULTILINE)
    assert not is_here()
    assert re.search(r"^messages +1\b", old.run(whole), re.MULTILINE)
    assert is_here()
    assert re.search(r"^messages +0\b", old.run(last), re.MULTILINE)


def shown_words(messages: list[Any]) -> Iterator[str]:
    """The lines that models are shown of messages, in their order."""
    for message in messages:
        texts = [unpacked(part["text"]) for part in message["content"]]
        calls = message["tool_calls"] or []
        said = [json.loads(call["function"]["arguments"]) for call in calls]
        values = [value for arguments in said for value in arguments.values()]
        texts += [value for value in values if isinstance(value, str)]
        for text in texts if not is_said(message) else ():
            yield from text.splitlines()


def strings(value: Any) -> Iterator[str]:
    """All texts in a value, in their order."""
    if isinstance(value, str):
        yield value
    for part in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from strings(part)


@pytest.mark.parametrize("agent_id", [name for name in AGENT_IDS if name != CASHIER])
async def test_an_agent_answers_with_the_context_that_it_had(
    report: Any, ahttp: httpx.AsyncClient, model: ScriptedModelProcess, agent_id: str
) -> None:
    words = f"SAY:I am {agent_id}"
    messages = [{"role": "user", "content": words}]
    answer = await ahttp.post(f"/v1/agents/{agent_id}/messages", json={"messages": messages})
    assert answer.status_code == 200, answer.text
    asked = [request for request in await model.requests(last=9) if words in [*strings(request)]]
    sent = "\n".join(strings(asked[-1]["messages"]))
    place = 0
    for words in shown_words(expected(agent_id)["context"]["messages"][1:]):
        place = sent.find(words, place)
        assert place >= 0, words


def test_an_approval_that_was_asked_for_is_given(report: Any, http: httpx.Client) -> None:
    approval = {"type": "approval", "approve": True, "tool_call_id": "call_fake0000000000000046"}
    answer = http.post(
        f"/v1/agents/{CASHIER}/messages",
        json={"messages": [{"type": "approval", "approvals": [approval]}]},
    )
    assert answer.status_code == 200, answer.text
    kinds = [message["message_type"] for message in answer.json()["messages"]]
    assert kinds == ["tool_return_message", "assistant_message"]


def test_what_went_on_here_is_left_alone(report: Any, old: OldServer, http: httpx.Client) -> None:
    said = [{"role": "user", "content": "SAY:Here"}]
    assert http.post(f"/v1/agents/{GHOST}/messages", json={"messages": said}).status_code == 200
    message_id = add_message(old, GHOST)
    left = [each for each in old.report()["left"] if each["table"] == "conversations"]
    assert any(main_conversation(GHOST) in each["ids"] for each in left)
    ids = [message["id"] for message in everything(http, f"/v1/agents/{GHOST}/messages")]
    assert message_id not in ids


def test_what_this_server_refuses_stays_behind_and_is_said(report: Any, old: OldServer) -> None:
    with psycopg.connect(old.url) as database:
        database.execute(
            "insert into groups (id, description, manager_type, organization_id, agent_ids)"
            " select 'group-00000000-0000-4000-8000-000000000001', 'Lost', 'round_robin', id,"
            " '[\"agent-00000000-0000-4000-8000-000000000001\"]' from organizations"
        )
    told = old.report()
    [left] = [each for each in told["left"] if each["table"] == "definitions"]
    assert left["ids"] == ["group-00000000-0000-4000-8000-000000000001"]
    assert "agent-00000000-0000-4000-8000-000000000001" in left["reason"]
