"""The history of memory blocks: who changed what, line by line, and the way back."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from letta_client import Letta

from tests.e2e.asking import USER, unique
from tests.e2e.conftest import NewAgent


@pytest.fixture
def block(letta: Letta) -> str:
    made = letta.blocks.create(label="notes", value="one\ntwo")
    letta.blocks.update(made.id, value="one\n2\nthree", description="Numbers")
    return made.id


def history(http: httpx.Client, block_id: str, **query: Any) -> Any:
    answer = http.get(f"/v1/blocks/{block_id}/history", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def undo(http: httpx.Client, block_id: str, **body: Any) -> httpx.Response:
    return http.post(f"/v1/blocks/{block_id}/undo", json=body)


def test_each_version_says_what_was_changed_when_and_by_whom(
    http: httpx.Client, letta: Letta, block: str
) -> None:
    letta.blocks.delete(block)

    gone, changed, created = history(http, block)

    assert [version["kind"] for version in (created, changed, gone)] == [
        "created",
        "changed",
        "deleted",
    ]
    assert [version["version"] for version in (created, changed, gone)] == [1, 2, 3]
    assert {version["author_id"] for version in (created, changed, gone)} == {USER}
    assert created["created_at"] < changed["created_at"] < gone["created_at"]
    assert created["fields"]["value"] == "one\ntwo"
    assert changed["fields"] == {"value": "one\n2\nthree", "description": "Numbers"}
    assert (changed["run_id"], changed["tool_name"], changed["restored_version"]) == (None,) * 3


def test_versions_come_in_pages(http: httpx.Client, block: str) -> None:
    [newest] = history(http, block, limit=1)
    [older] = history(http, block, limit=5, after=newest["version"])
    ascending = history(http, block, order="asc")

    assert ascending == [older, newest]
    assert history(http, block, before=2) == []


def test_what_an_agent_wrote_names_its_run_and_its_call(
    http: httpx.Client, letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent()
    word = unique("rhubarb")
    call = f'CALL:memory_insert:{{"label":"human","new_string":"Likes {word}"}}'
    answer = letta.agents.messages.create(agent.id, messages=[{"role": "user", "content": call}])
    [asked] = [
        message for message in answer.messages if message.message_type == "tool_call_message"
    ]
    block_id = next(
        block.id for block in letta.agents.blocks.list(agent.id) if block.label == "human"
    )

    blame = http.get(f"/v1/blocks/{block_id}/blame").json()

    first, *_, last = blame["lines"]
    assert (first["text"], first["number"], first["version"]) == ("Name: Ada", 1, 1)
    assert first["author_id"] == USER
    assert last["text"] == f"Likes {word}"
    assert last["author_id"] == agent.id
    assert last["tool_name"] == "memory_insert"
    assert last["tool_call_id"] == asked.tool_call.tool_call_id
    assert last["run_id"].startswith("run-")


def test_a_long_block_is_blamed_a_page_at_a_time(http: httpx.Client, letta: Letta) -> None:
    lines = [str(number) for number in range(1, 2_502)]
    long = letta.blocks.create(label="long", value="\n".join(lines), limit=100_000)
    letta.blocks.update(long.id, value="\n".join([*lines[:-1], "new"]))

    def page(**cursor: int) -> dict[str, Any]:
        answer = http.get(f"/v1/blocks/{long.id}/blame", params=cursor)
        assert answer.status_code == 200, answer.text
        blamed: dict[str, Any] = answer.json()
        assert (blamed["version"], blamed["lines_total"]) == (2, 2_501)
        return blamed

    first = page()["lines"]
    assert [line["text"] for line in first] == lines[:1_000]
    second, third = page(after=1_000)["lines"], page(after=2_000)["lines"]
    assert [line["number"] for line in (*first, *second, *third)] == [*range(1, 2_502)]
    assert {line["version"] for line in (*first, *second, *third[:-1])} == {1}
    assert (third[-1]["text"], third[-1]["version"]) == ("new", 2)
    assert [line["number"] for line in page(after=7, limit=2)["lines"]] == [8, 9]
    assert page(after=2_501)["lines"] == []
    refused = http.get(f"/v1/blocks/{long.id}/blame", params={"limit": 1_001})
    assert refused.status_code == 422
    assert "limit" in refused.text


def test_versions_are_compared(http: httpx.Client, block: str) -> None:
    compared = http.get(f"/v1/blocks/{block}/diff").json()

    assert (compared["from_version"], compared["to_version"]) == (1, 2)
    assert compared["fields"] == {"description": {"before": None, "after": "Numbers"}}
    assert compared["value_diff"].split("\n")[2:] == [
        *("@@ -1,2 +1,3 @@", " one", "-two", "+2", "+three")
    ]
    same = http.get(f"/v1/blocks/{block}/diff", params={"from_version": 2}).json()
    assert (same["fields"], same["value_diff"]) == ({}, "")


def test_a_block_is_read_as_it_was(http: httpx.Client, letta: Letta, block: str) -> None:
    now = http.get(f"/v1/blocks/{block}").json()

    assert http.get(f"/v1/blocks/{block}/versions/2").json() == now
    was = http.get(f"/v1/blocks/{block}/versions/1").json()
    assert was == {**now, "value": "one\ntwo", "description": None}


def test_a_change_is_undone_and_the_undoing_too(http: httpx.Client, block: str) -> None:
    undone = undo(http, block).json()
    assert (undone["value"], undone["description"]) == ("one\ntwo", None)
    assert undo(http, block).json()["value"] == "one\n2\nthree"
    assert undo(http, block, to_version=1).json()["value"] == "one\ntwo"

    newest = history(http, block)[0]
    assert (newest["kind"], newest["restored_version"], newest["version"]) == ("restored", 1, 5)


def test_what_is_the_same_is_no_version(http: httpx.Client, block: str) -> None:
    assert undo(http, block, to_version=2).status_code == 200
    assert len(history(http, block)) == 2


def test_an_undo_of_what_was_changed_since_is_refused(http: httpx.Client, block: str) -> None:
    refused = undo(http, block, to_version=1, if_version=1)

    assert refused.status_code == 409
    assert "at version 2" in refused.json()["detail"]
    assert http.get(f"/v1/blocks/{block}").json()["value"] == "one\n2\nthree"


def test_what_is_not_there_is_a_404_and_what_is_wrong_is_named(
    http: httpx.Client, letta: Letta, block: str
) -> None:
    nobody = "block-00000000-0000-4000-8000-000000000000"
    for part in ("history", "blame", "diff", "versions/1"):
        assert http.get(f"/v1/blocks/{nobody}/{part}").status_code == 404
    assert undo(http, nobody).status_code == 404
    for version in ("3", "0", "x", "9" * 30):
        assert http.get(f"/v1/blocks/{block}/versions/{version}").status_code == 404
    assert undo(http, block, to_version=3).status_code == 404
    assert undo(http, block, version=1).status_code == 422
    fresh = letta.blocks.create(label="fresh", value="")
    assert undo(http, fresh.id).status_code == 409
    letta.blocks.delete(block)
    assert undo(http, block, to_version=1).status_code == 404
    assert http.get(f"/v1/blocks/{block}/versions/3").status_code == 404
