"""Files from outside that are made to be large, slow, cut off or somebody else's."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from typing import Any

import pytest

from libs.contracts.agent.approvals import (
    ApprovalAnswered,
    ApprovalExpired,
    ApprovalRequested,
    RecordedAnswer,
)
from libs.contracts.agent.conversations import MessageAppended, ToolCall
from libs.contracts.agent.runs import RunAccepted
from libs.contracts.agent.steps import ModelReplied
from libs.contracts.api.import_errors import BadSource
from libs.contracts.bus_messages import Event, JsonObject
from libs.contracts.memory.blocks import BlockCreated
from services.api.adapters.agents import uploaded_lines
from services.api.adapters.agents.uploaded_lines import unpack_parts
from services.api.domain import line_checks
from services.api.engine.import_approvals import with_rules
from tests.contract.examples import AGENT, BLOCK
from tests.contract.histories import one
from tests.unit.api.test_line_checks import CONVERSATION, check, history, sound, written

FOLDER = "source-77777777-7777-4777-8777-777777777777"
NO_IDS = ("a b", "a.b", "a*", ">", "a\r\nPUB x 0\r\n", "", "é", "../../etc/passwd", "x" * 201)


async def unpacked(*parts: bytes) -> bytes:
    """What parts of an upload are unpacked to."""

    async def uploaded() -> AsyncIterator[bytes]:
        for part in parts:
            yield part

    return b"".join([data async for data in unpack_parts(uploaded())])


async def test_several_gzip_members_are_one_file() -> None:
    packed = gzip.compress(b"one\n") + gzip.compress(b"two\n") + bytes(512)
    assert await unpacked(packed) == b"one\ntwo\n"
    for place in range(2, len(packed)):
        assert await unpacked(packed[:place], packed[place:]) == b"one\ntwo\n"


@pytest.mark.parametrize(
    ("packed", "words"),
    [
        (gzip.compress(b"one\n")[:-4], "it is cut off"),
        (gzip.compress(b"one\n") + gzip.compress(b"two\n")[:-9], "it is cut off"),
        (gzip.compress(b"one\n") + b"something else", "it is no gzip, or damaged"),
        (b"\x1f\x8bnothing of that kind", "it is no gzip, or damaged"),
        (gzip.compress(bytes(300_000)), "unpacked it has over"),
        (gzip.compress(b"") * 12, "gzip members"),
    ],
    ids=["cut", "second cut", "garbage behind", "garbage", "bomb", "many members"],
)
async def test_what_is_no_whole_gzip_is_refused(
    packed: bytes, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploaded_lines, "UNPACKED_BYTES_MAX", 200_000)
    monkeypatch.setattr(uploaded_lines, "MEMBERS_MAX", 10)
    with pytest.raises(BadSource, match=words):
        await unpacked(packed)


def refusal(lines: list[dict[str, Any]]) -> str:
    """Why lines are refused."""
    with pytest.raises(BadSource) as bad:
        check(written(lines))
    [error] = bad.value.errors
    return f"{error.entry}: {error.message}"


@pytest.mark.parametrize("name", NO_IDS)
def test_an_id_that_no_subject_can_have_is_refused_with_its_line(name: str) -> None:
    lines = sound()
    lines[1]["id"] = name
    assert refusal(lines).startswith("line 2: ")
    lines = sound()
    lines[2]["history"]["aggregate_id"] = name
    assert refusal(lines).startswith("line 3: ")
    run = history("agent", CONVERSATION, one(RunAccepted, run_id=name), first_version=2)
    run["history"]["events"][0]["payload"]["run"]["agent_id"] = AGENT
    lines = sound()
    lines[4]["history"]["complete"] = False
    assert refusal([*lines[:5], run, lines[5]]) == f"line 6: event 1: `{name[:100]}` is no id"


def file_text(number: int, **fields: Any) -> dict[str, Any]:
    """A part of a file."""
    line = {
        "kind": "file_text",
        "file_id": "file-1",
        "folder_id": FOLDER,
        "number": number,
        "value": {"parts": 2},
        "chunks": [{"text": "a"}],
    }
    return {**line, **fields}


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([file_text(0)], "file: the text of file-1 is not complete"),
        ([file_text(1)], "line 3: part 0 of file-1 has to come"),
        ([file_text(0), file_text(2)], "line 4: part 1 of file-1 has to come"),
        ([file_text(0), file_text(0, file_id="file-2")], "line 4: part 1 of file-1 has to come"),
        ([file_text(0, value={"parts": 1e9})], "line 3: `value.parts` has to be the number"),
        ([file_text(0, value={"parts": 0})], "line 3: `value.parts` has to be the number"),
        ([file_text(0, folder_id="source-2")], "line 3: folder source-2 is not defined"),
    ],
)
def test_a_file_that_is_not_whole_is_refused(parts: list[dict[str, Any]], words: str) -> None:
    folder = {"kind": "definition", "of": "folder", "id": FOLDER, "value": {"name": "notes"}}
    lines = sound()
    assert refusal([lines[0], folder, *parts, *lines[1:]]).startswith(words)


def test_a_million_tiny_things_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_checks, "THINGS_MAX", 10)
    lines = sound()
    tools = [{"kind": "definition", "of": "tool", "id": f"tool-{n}", "value": {}} for n in range(9)]
    check(written([lines[0], *tools, *lines[1:]]))
    tools *= 2
    for number, tool in enumerate(tools):
        tools[number] = {**tool, "id": f"tool-{number}"}
    assert "more than 10 definitions" in refusal([lines[0], *tools, *lines[1:]])
    nothing = history("memory", BLOCK, complete=False)
    assert "has no event in this line" in refusal([*lines[:2], nothing, *lines[2:]])


def test_large_definitions_are_refused_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_checks, "DEFINITIONS_BYTES_MAX", 1_000)
    lines = sound()
    tool = {"kind": "definition", "of": "tool", "id": "tool-1", "value": {"code": "x" * 1_000}}
    assert "definitions may have 1,000 bytes together" in refusal([lines[0], tool, *lines[1:]])


def test_a_time_without_its_zone_is_refused() -> None:
    lines = sound()
    lines[2] = history("memory", BLOCK, one(BlockCreated))
    lines[2]["history"]["events"][0]["occurred_at"] = "2026-01-02T03:04:05"
    assert "`occurred_at` has to say its time zone" in refusal(lines)


def design(tools: list[str], tool_ids: list[str], rules: list[JsonObject]) -> JsonObject:
    """What an event says of an agent."""
    return {"tools": [*tools], "tool_ids": [*tool_ids], "config": {"tool_rules": [*rules]}}


def waits(name: str) -> JsonObject:
    """The rule of a tool that needs an approval."""
    return {"prompt_template": None, "tool_name": name, "type": "requires_approval"}


@pytest.mark.parametrize(
    ("tools", "known_as", "ruled"),
    [
        (["tidy", "wipe"], ["tidy", "wipe"], "wipe"),
        (["tidy", "erase"], ["tidy", "erase"], "erase"),  # it was renamed since it was attached
        (["tidy", "tidy"], ["tool-1", "wipe"], "wipe"),  # a file cannot hide one behind another
        ([], ["tool-1", "wipe"], "wipe"),
    ],
)
def test_a_tool_that_needs_an_approval_has_its_rule_whatever_a_file_says(
    tools: list[str], known_as: list[str], ruled: str
) -> None:
    payload = design(tools, ["tool-1", "tool-2"], [])
    changed = with_rules(payload, ["tool-1", "tool-2"], {"tool-2": "wipe"})
    assert changed == design(known_as, ["tool-1", "tool-2"], [waits(ruled)])
    assert with_rules(changed, ["tool-1", "tool-2"], {"tool-2": "wipe"}) == changed


def asked(*events: Event, **fields: Any) -> None:
    """Check an agent whose conversation has these events too. Raises BadSource."""
    lines = sound()
    begin = one(MessageAppended, agent_id=AGENT)
    named = [event.model_copy(update={"agent_id": AGENT}) for event in events]
    lines[4] = history("agent", CONVERSATION, begin, *named)
    check(written(lines), **fields)


def test_an_answer_does_not_let_calls_of_a_file_pass_that_nobody_was_asked_about() -> None:
    call = ToolCall(id="call-1", name="mail", arguments="{}", gated=True)
    hidden = ToolCall(id="call-2", name="wipe", arguments="{}")
    mixed = one(ModelReplied, tool_calls=[call, hidden], agent_id=AGENT)
    gated = one(ModelReplied, tool_calls=[call], agent_id=AGENT)
    asks = one(ApprovalRequested, agent_id=AGENT)
    with pytest.raises(BadSource, match="`wipe` would be called without a question"):
        asked(mixed, asks)
    asked(mixed, asks, accept_tools=True)
    asked(gated, asks)
    asked(mixed)
    answers = [RecordedAnswer(tool_call_id="call-1", kind="approved", arguments_hash="0")]
    part = one(ApprovalAnswered, answers=answers, waiting=["call-2"])
    with pytest.raises(BadSource, match="`call-1` would be called without a question"):
        asked(gated, asks, part)
    asked(gated, asks, part.model_copy(update={"waiting": []}))
    asked(mixed, asks, one(ApprovalExpired))
