"""An agent as it was: `?at=` answers what was answered then."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from letta_client import Letta

from libs.contracts.agent.conversations import main_conversation
from tests.e2e.asking import EMBEDDING, NOBODY, SECONDS_MAX, says, tool_call, unique
from tests.e2e.conftest import NewAgent, NewTool
from tests.servers import HeelerInstance, wait_until

AGENT = pytest.mark.operation("GET /v1/agents/{agent_id}")
EVENTS = " union all ".join(
    f"select aggregate_id, version, commit_order from {service}.events"
    for service in ("agent", "memory", "tools", "groups")
)
EVERYTHING = "&".join(
    f"include=agent.{name}"
    for name in (
        *("blocks", "tools", "tags", "sources"),
        *("secrets", "managed_group", "pending_approval"),
    )
)
PATHS = (
    f"?{EVERYTHING}",
    "/messages?limit=1000&include_compaction_messages=true",
    "/core-memory/blocks",
    "/core-memory/blocks/human",
    "/context",
    "/tools",
    "/archival-memory",
    "/archival-memory?search=tea",
)


class Story:
    """The life of an agent, with all that was answered about it after each step."""

    def __init__(self, heeler: HeelerInstance, http: httpx.Client, agent_id: str) -> None:
        self.heeler = heeler
        self.http = http
        self.agent_id = agent_id
        self.answers: list[tuple[str, dict[str, Any]]] = []
        self.own = {agent_id, main_conversation(agent_id)}

    def look(self, at: str | None = None) -> dict[str, Any]:
        """What each path answers, now or as of a moment."""
        answers = {}
        for path in PATHS:
            url = f"/v1/agents/{self.agent_id}{path}"
            url += f"{'&' if '?' in url else '?'}at={at}" if at else ""
            answer = self.http.get(url)
            assert answer.status_code == 200, (url, answer.text)
            answers[path] = answer.json()
        return answers

    def note(self) -> None:
        """Keep what is answered now, with the newest event of the agent."""
        answers = self.look()
        for path in ("/core-memory/blocks", "/archival-memory"):
            self.own |= {shown["id"] for shown in answers[path]}
        listed = ", ".join(f"'{name}'" for name in self.own)
        [(aggregate, version, _)] = self.heeler.psql(
            f"select * from ({EVENTS}) e where aggregate_id in ({listed})"
            " order by commit_order desc, version desc limit 1"
        )
        self.answers.append((f"{aggregate}.{version}", answers))


@AGENT
def test_an_agent_is_shown_at_each_event_as_it_was_answered_then(
    heeler: HeelerInstance, http: httpx.Client, letta: Letta, new_agent: NewAgent, new_tool: NewTool
) -> None:
    agent = new_agent(tags=["young"], secrets={"KEY": "value"}, tools=["archival_memory_insert"])
    story = Story(heeler, http, agent.id)
    story.note()
    for said in (
        "Good morning",
        tool_call("memory_insert", label="human", new_str="Likes tea"),
        tool_call("archival_memory_insert", content="Ada drinks tea.", tags=["tea"]),
        tool_call("archival_memory_insert", content="Ada was born in London."),
    ):
        letta.agents.messages.create(agent.id, messages=says(said))
        story.note()
    letta.agents.update(agent.id, name=unique("renamed"), tags=["old"], description="Wise.")
    story.note()
    tool = new_tool("return str(sides)")
    letta.agents.tools.attach(tool.id, agent_id=agent.id)
    story.note()
    letta.agents.messages.create(agent.id, messages=says(tool_call(tool.name, sides=6)))
    story.note()
    letta.agents.blocks.update("human", agent_id=agent.id, value="Forgotten")
    story.note()
    passages = story.answers[-1][1]["/archival-memory"]
    letta.agents.passages.delete(passages[0]["id"], agent_id=agent.id)
    story.note()
    http.post(f"/v1/agents/{agent.id}/summarize").raise_for_status()
    story.note()
    http.patch(f"/v1/agents/{agent.id}/reset-messages", json={}).raise_for_status()
    story.note()
    letta.agents.delete(agent.id)

    for at, answered in story.answers:
        assert story.look(at) == answered, at
    assert http.get(f"/v1/agents/{agent.id}").status_code == 404


def test_a_time_means_all_that_was_committed_until_then(
    heeler: HeelerInstance, http: httpx.Client, letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent()
    path = f"/v1/agents/{agent.id}/core-memory/blocks/human"
    [(before,)] = heeler.psql("select clock_timestamp()")
    letta.agents.blocks.update("human", agent_id=agent.id, value="Name: Grace")
    [(after,)] = heeler.psql("select clock_timestamp()")
    letta.agents.blocks.update("human", agent_id=agent.id, value="Name: Hedy")

    values = [
        http.get(path, params={"at": at}).json()["value"]
        for at in (before.isoformat(), after.isoformat(), "2999-01-01")
    ]

    assert values == ["Name: Ada", "Name: Grace", "Name: Hedy"]
    born = http.get(f"/v1/agents/{agent.id}", params={"at": "2001-01-01T00:00:00Z"})
    assert (born.status_code, "did not exist then" in born.text) == (404, True)


def test_what_is_no_moment_of_the_agent_is_refused(
    http: httpx.Client, letta: Letta, new_agent: NewAgent
) -> None:
    agent, other = new_agent(), new_agent()
    for at in ("yesterday", "", f"{agent.id}.0", f"{agent.id}.1.2", "2026-13-01"):
        refused = http.get(f"/v1/agents/{agent.id}", params={"at": at})
        assert (refused.status_code, "`at`" in refused.text) == (422, True), (at, refused.text)
    foreign = letta.agents.blocks.retrieve("human", agent_id=other.id).id
    for at in (f"{agent.id}.99", f"{other.id}.1", f"{foreign}.1", f"agent-{NOBODY}.1"):
        refused = http.get(f"/v1/agents/{agent.id}", params={"at": at})
        assert (refused.status_code, at in refused.text) == (404, True), (at, refused.text)
    own = letta.agents.blocks.retrieve("human", agent_id=agent.id).id
    before_birth = http.get(f"/v1/agents/{agent.id}", params={"at": f"{own}.1"})
    assert before_birth.status_code == 404, "the block was made before the agent"
    nobody = http.get(f"/v1/agents/agent-{NOBODY}", params={"at": "2026-01-01"})
    assert nobody.status_code == 404


def test_folders_and_identities_are_shown_as_they_were_attached_then(
    heeler: HeelerInstance, http: httpx.Client, letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent()
    folder = letta.folders.create(name=unique("papers"), embedding=EMBEDDING)
    letta.folders.files.upload(folder.id, file=("plan.txt", b"Bake bread", "text/plain"))

    def is_read() -> bool:
        [file] = letta.folders.files.list(folder.id).items
        return file.processing_status == "completed"

    wait_until("the file is read", is_read, SECONDS_MAX)
    letta.agents.folders.attach(folder.id, agent_id=agent.id)
    ada = {"identifier_key": unique("ada"), "name": "Ada", "identity_type": "user"}
    made = http.post("/v1/identities", json={**ada, "agent_ids": [agent.id]})
    assert made.is_success, made.text
    path = f"/v1/agents/{agent.id}?{EVERYTHING}&include=agent.identities"
    answered = http.get(path).json()
    assert "Bake bread" in str(answered["memory"]["file_blocks"])
    assert [identity["name"] for identity in answered["identities"]] == ["Ada"]
    [(moment,)] = heeler.psql("select clock_timestamp()")

    letta.folders.delete(folder.id)
    http.delete(f"/v1/identities/{made.json()['id']}").raise_for_status()
    now = http.get(path).json()
    assert (now["sources"], now["identities"]) == ([], [])

    again = http.get(f"{path}&at={moment.isoformat().replace('+', '%2B')}").json()
    # The text of a file is that of today, and it has none any more.
    for shown in (answered, again):
        for block in shown["memory"]["file_blocks"]:
            del block["value"]
    assert again == answered


@pytest.mark.parametrize(
    "path",
    ["conversations/?agent_id={}&", "blocks/?", "archives/?", "runs/?", "folders/?", "agents/?"],
)
def test_what_answers_of_the_present_alone_refuses_a_moment(
    http: httpx.Client, new_agent: NewAgent, path: str
) -> None:
    url = f"/v1/{path.format(new_agent().id)}"
    assert http.get(url).status_code == 200
    answer = http.get(f"{url}at=2026-01-31T14:30:00Z")
    assert answer.status_code == 422, answer.text
    assert answer.json()["detail"].startswith("`at`: GET /v1/")
    assert http.get(f"{url}format=x").status_code == 200, "what V1 ignores is ignored"
