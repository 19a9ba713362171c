"""Folders of agents through the SDK: attached and detached, files that are open, and the tools for
them. One folder with three files, uploaded once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import uuid4

import httpx
import pytest
from letta_client import Letta, NotFoundError
from letta_client.types import Folder

from tests.e2e.asking import EMBEDDING, call_tool, says, unique
from tests.e2e.conftest import NewAgent
from tests.waiting import wait_for

ATTACH = pytest.mark.operation("PATCH /v1/agents/{agent_id}/folders/attach/{folder_id}")
DETACH = pytest.mark.operation("PATCH /v1/agents/{agent_id}/folders/detach/{folder_id}")
LIST = pytest.mark.operation("GET /v1/agents/{agent_id}/folders")
SOURCES = pytest.mark.operation("GET /v1/agents/{agent_id}/sources")
ATTACH_SOURCE = pytest.mark.operation("PATCH /v1/agents/{agent_id}/sources/attach/{source_id}")
DETACH_SOURCE = pytest.mark.operation("PATCH /v1/agents/{agent_id}/sources/detach/{source_id}")
FILES = pytest.mark.operation("GET /v1/agents/{agent_id}/files")
OPEN = pytest.mark.operation("PATCH /v1/agents/{agent_id}/files/{file_id}/open")
CLOSE = pytest.mark.operation("PATCH /v1/agents/{agent_id}/files/{file_id}/close")
CLOSE_ALL = pytest.mark.operation("PATCH /v1/agents/{agent_id}/files/close-all")

NOBODY = "99999999-9999-4999-8999-999999999999"
TOOLS = {"open_files", "grep_files", "semantic_search_files"}
TEXTS = {
    "plan.txt": "\n".join(f"Step {n}: bake bread number {n}" for n in range(1, 41)),
    "notes.md": "# Notes\nThe cat is called Mia.\nTea at four o'clock.\n",
    "list.txt": "flour\nwater\nsalt\n",
}


@pytest.fixture(scope="module")
async def folder(letta: Letta) -> AsyncIterator[Folder]:
    """A folder whose files are read."""
    made = letta.folders.create(
        name=unique("kitchen"), description="How we bake", embedding=EMBEDDING
    )
    for name, text in TEXTS.items():
        letta.folders.files.upload(made.id, file=(name, text.encode(), "text/plain"))

    def completed() -> bool:
        files = letta.folders.files.list(made.id).items
        return [file.processing_status for file in files] == ["completed"] * len(TEXTS)

    await wait_for("files are read", completed)
    yield made
    letta.folders.delete(made.id)


def prompt(letta: Letta, agent_id: str) -> str:
    """The newest system message of an agent."""
    letta.agents.messages.create(agent_id, messages=says("Hi"))
    found = letta.agents.messages.list(agent_id, order="asc", limit=1).items
    return str(found[0].content)


def names(letta: Letta, agent_id: str, **wanted: Any) -> dict[str, bool]:
    """The files that an agent sees, and whether they are open."""
    files = letta.agents.files.list(agent_id, **wanted).files
    return {file.file_name.rpartition("/")[2]: file.is_open for file in files}


@ATTACH
@DETACH
@LIST
@FILES
def test_an_agent_sees_a_folder_with_the_tools_for_its_files(
    letta: Letta, new_agent: NewAgent, folder: Folder
) -> None:
    agent = new_agent()
    before = {tool.name for tool in letta.agents.tools.list(agent.id).items}
    assert letta.agents.folders.attach(folder.id, agent_id=agent.id) is None
    assert letta.agents.folders.attach(folder.id, agent_id=agent.id) is None, "once is enough"
    [listed] = letta.agents.folders.list(agent.id).items
    assert (listed.id, listed.name) == (folder.id, folder.name)
    assert {tool.name for tool in letta.agents.tools.list(agent.id).items} == before | TOOLS
    shown = letta.agents.retrieve(agent.id, include=["agent.sources"])
    assert [source.id for source in shown.sources] == [folder.id]
    assert names(letta, agent.id) == dict.fromkeys(TEXTS, True)
    system = prompt(letta, agent.id)
    assert f'<directory name="{folder.name}">' in system
    assert "<description>How we bake</description>" in system
    assert f'<file status="open" name="{folder.name}/plan.txt">' in system
    assert "[Viewing file start (out of 40 lines)]\n1: Step 1: bake bread number 1\n" in system
    assert "- current_files_open=3\n" in system
    context = letta.get(f"/v1/agents/{agent.id}/context", cast_to=object)
    assert "bake bread" in context["directories"]
    assert context["num_tokens_directories"] > 100
    assert letta.agents.folders.detach(folder.id, agent_id=agent.id) is None
    assert letta.agents.folders.list(agent.id).items == []
    assert {tool.name for tool in letta.agents.tools.list(agent.id).items} == before
    assert names(letta, agent.id) == {}
    assert "<directories>" not in prompt(letta, agent.id)
    with pytest.raises(NotFoundError, match="not attached"):
        letta.agents.folders.detach(folder.id, agent_id=agent.id)


@FILES
@OPEN
@CLOSE
@CLOSE_ALL
def test_files_are_opened_and_closed_within_a_limit(
    letta: Letta, new_agent: NewAgent, folder: Folder
) -> None:
    agent = new_agent(max_files_open=2, per_file_view_window_char_limit=300)
    letta.agents.folders.attach(folder.id, agent_id=agent.id)
    ids = {file.file_name: file.file_id for file in letta.agents.files.list(agent.id).files}
    ids = {name.rpartition("/")[2]: file_id for name, file_id in ids.items()}
    opened = names(letta, agent.id, is_open=True)
    assert len(opened) == 2, "as many as may be open"
    last = next(iter({*TEXTS} - {*opened}))
    [closed] = letta.agents.files.open(ids[last], agent_id=agent.id)
    assert closed.rpartition("/")[2] in opened, "the one that was used longest ago"
    assert names(letta, agent.id)[last]
    shown = [file for file in letta.agents.files.list(agent.id).files if file.is_open]
    assert all(len(file.visible_content or "") <= 300 for file in shown)
    assert all((file.visible_content or "").startswith("[Viewing file start") for file in shown)
    letta.agents.files.close(ids[last], agent_id=agent.id)
    assert not names(letta, agent.id)[last]
    rest = letta.agents.files.close_all(agent.id)
    assert len(rest) == 1
    assert names(letta, agent.id, is_open=True) == {}
    pages = letta.agents.files.list(agent.id, limit=2)
    assert (len(pages.files), pages.has_more) == (2, True)
    assert {page.file_id for page in pages} == {*ids.values()}, "a page leads to the next"


@pytest.mark.operation("GET /v1/agents/{agent_id}")
@pytest.mark.operation("GET /v1/agents/")
@pytest.mark.operation("GET /v1/agents/{agent_id}/core-memory")
def test_the_memory_of_an_agent_has_a_block_for_each_of_its_files(
    letta: Letta, http: httpx.Client, new_agent: NewAgent, folder: Folder
) -> None:
    agent = new_agent(max_files_open=2, per_file_view_window_char_limit=300)
    assert agent.memory.file_blocks == []
    letta.agents.folders.attach(folder.id, agent_id=agent.id)
    files = letta.agents.files.list(agent.id).files

    shown = letta.agents.retrieve(agent.id, include=["agent.blocks"])

    blocks = shown.memory.file_blocks or []
    assert {block.label: (block.file_id, block.is_open) for block in blocks} == {
        file.file_name: (file.file_id, file.is_open) for file in files
    }
    assert {block.label for block in blocks} == {f"{folder.name}/{name}" for name in TEXTS}
    values = {file.file_id: file.visible_content for file in files if file.is_open}
    assert len(values) == 2
    system = prompt(letta, agent.id)
    for block in blocks:
        assert (block.source_id, block.limit, block.read_only) == (folder.id, 300, True)
        assert block.value == (values[block.file_id] if block.is_open else "")
        assert block.value in system
        assert (block.last_accessed_at is not None) == block.is_open
    [listed] = letta.agents.list(name=agent.name, include=["agent.blocks"]).items
    assert listed.memory.file_blocks == blocks
    assert (letta.agents.retrieve(agent.id).memory.file_blocks or []) == []
    memory = http.get(f"/v1/agents/{agent.id}/core-memory").json()
    assert [block["label"] for block in memory["file_blocks"]] == [block.label for block in blocks]
    assert set(memory["blocks"][0]) < set(memory["file_blocks"][0])

    wanted = [{"file_name": f"{folder.name}/plan.txt", "offset": 9, "length": 2}]
    call_tool(letta, agent.id, "open_files", file_requests=wanted, close_all_others=True)
    shown = letta.agents.retrieve(agent.id, include=["agent.blocks"])
    [block] = [block for block in shown.memory.file_blocks or [] if block.is_open]
    assert block.value == (
        "[Viewing lines 10 to 11 (out of 40 lines)]\n10: Step 10: bake bread number 10\n"
        "11: Step 11: bake bread number 11"
    )
    letta.agents.folders.detach(folder.id, agent_id=agent.id)
    assert letta.agents.retrieve(agent.id, include=["agent.blocks"]).memory.file_blocks == []


def test_the_model_opens_files_and_finds_lines_and_passages(
    letta: Letta, new_agent: NewAgent, folder: Folder
) -> None:
    agent = new_agent()
    letta.agents.folders.attach(folder.id, agent_id=agent.id)
    plan = f"{folder.name}/plan.txt"
    wanted = [{"file_name": plan, "offset": 9, "length": 2}]
    told = call_tool(letta, agent.id, "open_files", file_requests=wanted, close_all_others=True)
    assert f"Opened {plan} (lines 10 to 11 of 40)" in told.tool_return
    assert "Closed 2" in told.tool_return
    system = prompt(letta, agent.id)
    shown = "[Viewing lines 10 to 11 (out of 40 lines)]\n10: Step 10: bake bread number 10\n11: "
    assert shown in system
    assert "12: Step 12" not in system
    assert "- current_files_open=1\n" in system
    told = call_tool(letta, agent.id, "grep_files", pattern=r"mia|tea\b", context_lines=0)
    assert "Found 2 matches in 1 files" in told.tool_return
    assert "> 2: The cat is called Mia." in told.tool_return
    told = call_tool(letta, agent.id, "grep_files", pattern="bread", include="*.txt", offset=20)
    assert "showing 21 to 40" in told.tool_return
    for pattern, words in (("(", "missing )"), ("(?=a)", "look-around"), (" ", "empty")):
        told = call_tool(letta, agent.id, "grep_files", pattern=pattern)
        assert (told.status, words in told.tool_return) == ("error", True), told.tool_return
    told = call_tool(
        letta, agent.id, "semantic_search_files", query="What is the pet named?", limit=1
    )
    assert told.status == "success", told.tool_return
    assert "The cat is called Mia." in told.tool_return
    assert "notes.md" in told.tool_return
    assert "Step 1:" not in told.tool_return
    told = call_tool(letta, agent.id, "semantic_search_files", query=" ")
    assert (told.status, "query" in told.tool_return) == ("error", True), told.tool_return
    wanted = [{"file_name": "nope.txt"}]
    told = call_tool(letta, agent.id, "open_files", file_requests=wanted)
    assert told.status == "error"
    assert plan in told.tool_return


@ATTACH_SOURCE
@DETACH_SOURCE
@SOURCES
def test_older_clients_attach_sources_and_get_the_agent(
    legacy: httpx.Client, new_agent: NewAgent, folder: Folder
) -> None:
    agent = new_agent()
    path = f"/v1/agents/{agent.id}/sources"
    body = legacy.patch(f"{path}/attach/{folder.id}").json()
    assert [source["id"] for source in body["sources"]] == [folder.id]
    assert [folder_row["id"] for folder_row in legacy.get(path).json()] == [folder.id]
    body = legacy.patch(f"{path}/detach/{folder.id}").json()
    assert (body["id"], body["sources"]) == (agent.id, [])
    assert legacy.get(path).json() == []


async def test_an_agent_is_made_with_folders_and_loses_those_that_are_deleted(
    letta: Letta, new_agent: NewAgent, folder: Folder
) -> None:
    other = letta.folders.create(name=unique("attic"), embedding=EMBEDDING)
    agent = new_agent(folder_ids=[folder.id, other.id])
    listed = letta.agents.folders.list(agent.id, order="asc").items
    assert [message.id for message in listed] == [folder.id, other.id]
    with pytest.raises(NotFoundError, match=f"source-{NOBODY}"):
        new_agent(folder_ids=[f"source-{NOBODY}"])
    last = new_agent(source_ids=[other.id])
    before = {tool.name for tool in letta.agents.tools.list(last.id).items}
    letta.folders.delete(other.id)
    assert [folder.id for folder in letta.agents.folders.list(agent.id).items] == [folder.id]
    with pytest.raises(NotFoundError, match=other.id):
        letta.agents.folders.attach(other.id, agent_id=agent.id)

    def tools() -> set[str]:
        return {str(tool.name) for tool in letta.agents.tools.list(last.id).items}

    await wait_for("the tools go with the last folder", lambda: tools() == before - TOOLS)
    assert {tool.name for tool in letta.agents.tools.list(agent.id).items} >= TOOLS


@pytest.mark.operation("PATCH /v1/agents/{agent_id}")
def test_an_update_says_which_folders_an_agent_has(
    letta: Letta, http: httpx.Client, new_agent: NewAgent, folder: Folder
) -> None:
    other = letta.folders.create(name=unique("attic"), embedding=EMBEDDING)
    agent = new_agent()
    bare = {tool.name for tool in letta.agents.tools.list(agent.id).items}
    path = f"/v1/agents/{agent.id}"

    def update(**fields: Any) -> tuple[set[str], set[str]]:
        answer = http.patch(path, params={"include": ["agent.sources"]}, json=fields)
        assert answer.status_code == 200, answer.text
        found = letta.agents.folders.list(agent.id).items
        return {str(item.id) for item in found}, {
            str(tool.name) for tool in letta.agents.tools.list(agent.id).items
        }

    assert update(folder_ids=[folder.id, folder.id]) == ({folder.id}, bare | TOOLS)
    assert names(letta, agent.id) == dict.fromkeys(TEXTS, True), "opened as by attaching"
    assert update(source_ids=[other.id]) == ({other.id}, bare | TOOLS)
    assert update(folder_ids=[folder.id, other.id], source_ids=[]) == (
        {other.id, folder.id},
        bare | TOOLS,
    ), "what is there stays, and the newer name counts"
    assert update(description="x") == ({other.id, folder.id}, bare | TOOLS)
    refused = http.patch(path, json={"folder_ids": [f"source-{NOBODY}"], "description": "y"})
    assert (refused.status_code, NOBODY in refused.text) == (404, True)
    many = [f"source-{uuid4()!s}" for _ in range(101)]
    refused = http.patch(path, json={"folder_ids": many})
    assert (refused.status_code, "at most 100" in refused.text) == (422, True)
    assert letta.agents.retrieve(agent.id).description == "x"
    assert update(folder_ids=[]) == (set(), bare)
    letta.folders.delete(other.id)


def test_an_agent_may_come_with_a_folder_of_its_own(letta: Letta, new_agent: NewAgent) -> None:
    name = unique("reader")
    folders = []
    for _ in range(2):
        agent = new_agent(name=name, include_default_source=True, embedding=EMBEDDING)
        [own] = letta.agents.folders.list(agent.id).items
        assert str(own.name).startswith(f"{name} External Data Source")
        assert {tool.name for tool in letta.agents.tools.list(agent.id).items} >= TOOLS
        folders.append(own)
    assert str(folders[1].name).endswith(f"({agent.id})"), "the name was taken"
    for own in folders:
        letta.folders.delete(own.id)


async def test_many_agents_see_a_new_file_as_soon_as_it_is_read_and_no_more_once_it_is_gone(
    letta: Letta, new_agent: NewAgent
) -> None:
    made = letta.folders.create(name=unique("shelf"), embedding=EMBEDDING)
    agents = [new_agent(folder_ids=[made.id], max_files_open=2) for _ in range(25)]

    def upload(name: str, text: str) -> str:
        sent = (name, text.encode(), "text/plain")
        return str(letta.folders.files.upload(made.id, file=sent).id)

    def completed(count: int) -> Callable[[], bool]:
        return lambda: (
            [file.processing_status for file in letta.folders.files.list(made.id).items]
            == ["completed"] * count
        )

    first = upload("first.txt", "The gate opens at nine.")
    await wait_for("the first file is read", completed(1))
    assert all(names(letta, agent.id) == {"first.txt": True} for agent in agents)
    assert "The gate opens at nine." in prompt(letta, agents[0].id)
    for number in range(2):
        upload(f"next{number}.txt", f"Number {number}.")
        await wait_for("the next file is read", completed(number + 2))
    for agent in agents:
        opened = names(letta, agent.id, is_open=True)
        assert {*opened} == {"next0.txt", "next1.txt"}, "the oldest made room"
    upload("doomed.txt", "Line of a file that is about to go.\n" * 20_000)
    letta.folders.files.delete(first, folder_id=made.id)
    letta.folders.delete(made.id)
    assert all(names(letta, agent.id) == {} for agent in agents)
    for agent in agents:
        assert letta.agents.folders.list(agent.id).items == []
    assert "gate" not in prompt(letta, agents[0].id)
