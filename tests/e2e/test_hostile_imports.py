"""Files that were made to harm: a client is told which line is at fault, and nothing is written."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from letta_client import Letta
from letta_client.types import AgentState

from tests.e2e.asking import says, tool_call, unique
from tests.e2e.conftest import NewAgent
from tests.e2e.test_agent_imports import dump, exported, imported, lines_of

type Lines = list[dict[str, Any]]


def file_of(lines: Lines, **footer: Any) -> bytes:
    """A file of these lines, the last of which is replaced by a footer that fits the others."""
    raw = [json.dumps(line).encode() + b"\n" for line in lines[:-1]]
    end = {
        "kind": "footer",
        "counts": Counter(line["kind"] for line in lines[:-1]),
        "sha256": hashlib.sha256(b"".join(raw)).hexdigest(),
    }
    return gzip.compress(b"".join(raw) + json.dumps({**end, **footer}).encode() + b"\n")


@pytest.fixture
def victim(letta: Letta, new_agent: NewAgent) -> AgentState:
    """An agent that was spoken to."""
    agent = new_agent(name=unique("victim"), memory_blocks=[{"label": "human", "value": "Ada"}])
    letta.agents.messages.create(agent.id, messages=says("Hello"))
    return agent


@pytest.fixture
def lines(letta: Letta, http: httpx.Client, new_agent: NewAgent) -> Lines:
    """The lines of an agent that was spoken to, and is gone."""
    agent = new_agent(name=unique("thief"))
    letta.agents.messages.create(agent.id, messages=says("Hello"))
    found = lines_of(exported(http, agent.id))
    letta.agents.delete(agent.id)
    return found


def replaced(lines: Lines, kind: str, new: str) -> Lines:
    """The lines with the last id of a kind, wherever it stands, replaced by another one."""
    text = json.dumps(lines)
    [*_, old] = re.findall(rf"{kind}-[0-9a-f]{{8}}-[0-9a-f-]{{27}}", text)
    changed: Lines = json.loads(text.replace(old, new))
    return changed


def ids_of(http: httpx.Client, agent_id: str) -> dict[str, str]:
    """An id of each kind of which rows are named by events."""
    [run, *_] = http.get(f"/v1/runs/?agent_id={agent_id}").json()
    [step, *_] = http.get(f"/v1/steps/?agent_id={agent_id}").json()
    messages = http.get(f"/v1/agents/{agent_id}/messages").json()
    return {"run": run["id"], "step": step["id"], "message": messages[-1]["id"]}


@pytest.mark.parametrize("kind", ["message", "run", "step"])
def test_an_import_does_not_overwrite_what_others_have(
    http: httpx.Client, victim: AgentState, lines: Lines, kind: str
) -> None:
    before, taken = dump(http, victim.id), ids_of(http, victim.id)[kind]
    agents = http.get("/v1/agents/count").json()
    answer = imported(http, file_of(replaced(lines, kind, taken)), conflicts="fail")
    assert answer.status_code == 409, answer.text
    [error] = answer.json()["errors"]
    assert error["entry"].startswith("line ")
    assert f"{taken} is the id of something else" in error["message"]
    assert dump(http, victim.id) == before
    assert http.get("/v1/agents/count").json() == agents


def test_what_goes_with_an_imported_agent_is_what_came_with_it(
    letta: Letta, http: httpx.Client, lines: Lines
) -> None:
    block = http.post("/v1/blocks", json={"label": "notes", "value": "Keep me."}).json()
    [created] = [
        event
        for line in lines
        if line["kind"] == "history"
        for event in line["history"]["events"]
        if event["topic"] == "agent.created"
    ]
    created["payload"]["own_block_ids"] = [block["id"]]
    answer = imported(http, file_of(lines))
    assert answer.status_code == 200, answer.text
    [agent_id] = answer.json()["agent_ids"]
    topic = f"/v1/agents/{agent_id}/events?topic=agent.created"
    assert block["id"] not in http.get(topic).text
    letta.agents.delete(agent_id)
    assert http.get(f"/v1/blocks/{block['id']}").json()["value"] == "Keep me."


def no_gzip(_: Lines) -> bytes:
    return b"\x1f\x8b" + b"no gzip" * 100


def cut_off(lines: Lines) -> bytes:
    return file_of(lines)[:-30]


def deep(lines: Lines) -> bytes:
    nested = json.loads('{"a":' * 99 + "1" + "}" * 99)
    return file_of([lines[0], {"kind": "definition", "value": nested}, *lines[1:]])


def huge_number(lines: Lines) -> bytes:
    return file_of([lines[0] | {"version": 10**400}, *lines[1:]])


def bomb(lines: Lines) -> bytes:
    return gzip.compress(json.dumps(lines[0]).encode() + b"\n" + b"[" * (32 << 20))


def foreign_tokens(lines: Lines) -> bytes:
    return file_of(replaced(lines, "run", "run-1.* 5 > PUB x"))


def of_tomorrow(lines: Lines) -> bytes:
    return gzip_of_text(lines, r'"occurred_at": "20\d\d', '"occurred_at": "9999')


def of_no_zone(lines: Lines) -> bytes:
    return gzip_of_text(lines, r'("occurred_at": "[^"]{19})[^"]*"', r'\1"')


def gzip_of_text(lines: Lines, pattern: str, by: str) -> bytes:
    """The file with a text replaced throughout."""
    return file_of(json.loads(re.sub(pattern, by, json.dumps(lines))))


def with_deletion(lines: Lines) -> bytes:
    """The agent is deleted in the end, by an event that no file may have."""
    last = lines[-2]["history"]
    gone = {**last["events"][-1], "topic": "agent.deleted", "payload": {"own_block_ids": []}}
    return file_of(
        [*lines[:-2], lines[-2] | {"history": last | {"events": [*last["events"], gone]}}, {}]
    )


@pytest.mark.parametrize(
    ("hostile", "entry"),
    [
        (no_gzip, "file"),
        (cut_off, "file"),
        (deep, "line 2"),
        (huge_number, "line 1"),
        (bomb, "line 2"),
        (foreign_tokens, "line "),
        (of_tomorrow, "line "),
        (of_no_zone, "line "),
        (with_deletion, "line "),
        (lambda lines: file_of(lines, sha256="0" * 64), "line "),
        (lambda lines: file_of(lines, counts={"history": 9}), "line "),
    ],
)
def test_a_hostile_file_is_refused_by_its_line(
    letta: Letta,
    http: httpx.Client,
    lines: Lines,
    victim: AgentState,
    hostile: Callable[[Lines], bytes],
    entry: str,
) -> None:
    agents = http.get("/v1/agents/count").json()
    answer = imported(http, hostile(lines))
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["entry"].startswith(entry)
    assert http.get("/v1/agents/count").json() == agents
    letta.agents.messages.create(victim.id, messages=says("Still there?"))


def test_a_tool_of_a_file_waits_for_an_approval_whatever_the_file_says(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    name = unique("wipe").replace("-", "_")
    source = f'def {name}() -> str:\n    """Wipe it all."""\n    return "wiped"\n'
    tool = http.post("/v1/tools", json={"source_code": source}).json()
    agent = new_agent(tool_ids=[tool["id"]])
    file = exported(http, agent.id)
    letta.agents.delete(agent.id)
    letta.tools.delete(tool["id"])
    for fields, reason in (({}, "requires_approval"), ({"accept_tools": "true"}, "end_turn")):
        answer = imported(http, file, **fields)
        assert answer.status_code == 200, answer.text
        [agent_id] = answer.json()["agent_ids"]
        said = letta.agents.messages.create(agent_id, messages=says(tool_call(name)))
        assert said.stop_reason.stop_reason == reason
        letta.agents.delete(agent_id)
        for made in http.get(f"/v1/tools?name={name}").json():
            letta.tools.delete(made["id"])
