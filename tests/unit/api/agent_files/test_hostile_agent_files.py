"""What is wrong with an agent file is said entry by entry, before anything of it is written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.api.v1.agent_file import agent_file_reader, json_file_scanner
from services.api.v1.agent_file.entry_problems import ERRORS_MAX
from tests.unit.api.agent_files.small_agent_files import (
    call,
    errors_of,
    legacy_file,
    lines_of,
    messages,
    modern_file,
    options,
    payload,
)


def with_agent(**fields: Any) -> dict[str, Any]:
    """A file whose agent has other fields."""
    file = modern_file()
    file["agents"][0] |= fields
    return file


def with_message(number: int, **fields: Any) -> dict[str, Any]:
    """A file one of whose messages has other fields."""
    file = modern_file()
    file["agents"][0]["messages"][number] |= fields
    return file


def with_entry(kind: str, **fields: Any) -> dict[str, Any]:
    """A file whose first entry of a list has other fields."""
    file = modern_file()
    file[kind][0] |= fields
    return file


def with_two(kind: str) -> dict[str, Any]:
    """A file that has the first entry of a list twice."""
    file = modern_file()
    file[kind].append(file[kind][0])
    return file


def group(**fields: Any) -> dict[str, Any]:
    """A file with a group."""
    return {**modern_file(), "groups": [{"id": "group-0", **fields}]}


@pytest.mark.parametrize(
    ("file", "entry"),
    [
        (with_message(3, role="robot"), "agents[0].messages[3].role"),
        (with_message(1, content=7), "agents[0].messages[1].content"),
        (with_message(1, id="message-0"), "agents[0].messages[1].id"),
        (with_message(1, created_at="soon"), "agents[0].messages[1].created_at"),
        (
            with_message(1, created_at="0001-01-01T00:00:00+14:00"),
            "agents[0].messages[1].created_at",
        ),
        (with_entry("files", file_size=10**30), "files[0].file_size"),
        (with_message(2, tool_calls=[{"id": "x"}]), "agents[0].messages[2].tool_calls[0].function"),
        (with_agent(agent_type="robot"), "agents[0].agent_type"),
        (with_agent(llm_config=None), "agents[0].llm_config"),
        (with_agent(llm_config={"model": "m"}), "agents[0].llm_config.model_endpoint_type"),
        (with_agent(name="../etc/passwd"), "agents[0].name"),
        (with_agent(tool_ids=["tool-9"]), "agents[0].tool_ids[0]"),
        (with_agent(block_ids=["block-0", "block-9"]), "agents[0].block_ids[1]"),
        (with_agent(source_ids=["source-9"]), "agents[0].source_ids[0]"),
        (
            with_agent(in_context_message_ids=["message-0", "message-0"]),
            "agents[0].in_context_message_ids[1]",
        ),
        (
            with_agent(in_context_message_ids=["message-77"]),
            "agents[0].in_context_message_ids[0]",
        ),
        (
            with_agent(files_agents=[{"file_id": "file-9", "source_id": "source-0"}]),
            "agents[0].files_agents[0].file_id",
        ),
        (with_agent(messages="all"), "agents[0].messages"),
        (with_entry("blocks", label=None), "blocks[0].label"),
        (with_entry("blocks", value=5), "blocks[0].value"),
        (with_entry("blocks", label=""), "blocks[0].label"),
        (with_entry("blocks", label="x" * 300), "blocks[0].label"),
        (with_entry("tools", name=""), "tools[0].name"),
        (with_entry("files", source_id="source-9"), "files[0].source_id"),
        (with_two("blocks"), "blocks[1]"),
        (with_two("tools"), "tools[2]"),
        (with_two("agents"), "agents[1]"),
        (group(agent_ids=["agent-9"]), "groups[0].agent_ids[0]"),
        (
            group(manager_config={"manager_type": "supervisor", "manager_agent_id": "agent-9"}),
            "groups[0].manager_config.manager_agent_id",
        ),
        (group(manager_config={"manager_type": "boss"}), "groups[0].manager_config.manager_type"),
        ({**modern_file(), "agents": {}}, "agents"),
        ({**modern_file(), "agents": []}, "agents"),
        ({**modern_file(), "agents": [7]}, "agents[0]"),
        ({**modern_file(), "blocks": 7}, "blocks"),
        ({"name": "nothing of an agent"}, "agents"),
        ({**legacy_file(), "core_memory": [{"label": "a", "value": 3}]}, "core_memory[0].value"),
        ({**legacy_file(), "messages": [{"role": "robot"}]}, "messages[0].role"),
        ({**legacy_file(), "in_context_message_indices": [99]}, "in_context_message_ids[0]"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_error_names_the_entry(file: Any, entry: str) -> None:
    assert entry in [error.partition(": ")[0] for error in errors_of(file)]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "an agent file is a JSON object"),
        (b"[]", "an agent file is a JSON object"),
        (b"\x1f\x8b not json", "no UTF-8"),
        (b"\xfe\xfa", "no UTF-8"),
        (b"\xff\xfe", "an agent file is a JSON object"),  # UTF-16, and nothing in it
        (b'{"agents": [', "agents[0]: Expecting value"),
        (b'{"agents": [{"id": "a"}', "a comma or a closing bracket is missing"),
        (b'{"agents": [], "agents": []}', "`agents` stands twice"),
        (b'{"agents": []} x', "something follows"),
        (b'{"a": NaN}', "a: NaN is no JSON"),
        (b'{"a": 1e999}', "a: a number is larger"),
        (b'{"a": ' + b"9" * 200 + b"}", "a: a number has more than"),
        (b'{"a": ' + b"[" * 100_000, "a: at most 24 levels"),
        (b'{"a": ' + b'{"a":' * 30 + b"1" + b"}" * 31, "a: at most 24 levels"),
        (b'{"a": [' + b"0," * 300_000 + b"0]}", "a: at most 200,000 keys and items"),
        (b"{" + b",".join(b'"k%d":0' % number for number in range(2_000)) + b"}", "over 1000 keys"),
        (b'{"agents": [' + b"{}," * 500 + b"{}]}", "agents: at most 100 agents in one file"),
        (b'{"skills": [' + b'{"name":""},' * 20_000 + b"0]}", "at most 10,000 skills"),
    ],
    ids=lambda value: value[:20] if isinstance(value, bytes) else "",
)
def test_what_is_no_agent_file_is_refused_with_its_place(data: bytes, words: str) -> None:
    assert any(words in error for error in errors_of(data))


def test_a_file_with_many_errors_names_the_first_of_them() -> None:
    file = modern_file()
    file["blocks"] = [{"id": f"block-{number}"} for number in range(1_000)]
    assert len(errors_of(file)) == ERRORS_MAX


def test_nothing_is_kept_that_is_larger_than_memory_may_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agent_file_reader, "KEPT_BYTES_MAX", 500)
    monkeypatch.setattr(json_file_scanner, "VALUE_CHARS_MAX", 4 << 20)
    assert "all without messages" in errors_of(modern_file())[0]
    long = json.dumps(with_entry("files", content="x" * (6 << 20))).encode()
    monkeypatch.setattr(agent_file_reader, "KEPT_BYTES_MAX", 1 << 20)
    assert errors_of(long) == ("files[0]: at most 4,194,304 characters in one value",)


def test_a_message_that_fits_no_event_is_refused() -> None:
    file = with_message(2, tool_calls=[call("call-1", "roll", text="x" * (4 << 20))])
    assert any(error.startswith("agents[0].messages[2]: ") for error in errors_of(file))


def test_a_message_that_grows_beyond_an_event_is_refused() -> None:
    part = {"type": "tool_call", "id": "c", "name": "n", "input": {"a": '"' * 1_200_000}}
    error = "agents[0].messages[4]: as an event it has"
    assert errors_of(with_message(4, content=[part]))[0].startswith(error)


def test_characters_that_no_database_keeps_are_dropped() -> None:
    file = with_message(1, content="a\x00b\ud800c")
    file["blocks"][0]["value"] = "x\x00y"
    lines = lines_of(file)
    assert messages(lines)[1]["content"] == "abc"
    assert payload(lines, "block.created")["block"]["value"] == "xy"


def test_no_time_of_a_file_is_later_than_now() -> None:
    lines = lines_of(with_message(1, created_at="9999-01-01T00:00:00Z"))
    assert messages(lines)[1]["created_at"].startswith("2026-11-26")


def test_ids_of_others_are_never_taken() -> None:
    theirs = "agent-141969e4-9490-41f7-a65a-46932049d888"
    file = with_agent(id=theirs)
    written = json.dumps([line.model_dump(mode="json") for line in lines_of(file)])
    assert theirs not in written


def test_secrets_that_somebody_wrote_into_a_file_are_not_taken() -> None:
    lines = lines_of(with_agent(secrets={"KEY": "hunter2"}), options())
    written = json.dumps([line.model_dump(mode="json") for line in lines])
    assert "hunter2" not in written


def test_a_value_on_the_border_of_what_is_read_at_once_is_whole() -> None:
    file = modern_file()
    padding = "p" * (json_file_scanner.CHUNK_CHARS - len(json.dumps(file)) // 2)
    padded = {"padding": padding, **file, "number": 123456789}
    assert lines_of(padded) == lines_of(modern_file())


def test_a_fraction_on_the_border_of_what_is_read_at_once_is_whole() -> None:
    file = modern_file()
    for length in range(1, 8):
        before = '{"padding": "", "fraction": '
        padding = "p" * (json_file_scanner.CHUNK_CHARS - len(before) - length)
        begin = before.replace('""', f'"{padding}"')
        data = f"{begin}-1.5e+3, {json.dumps(file)[1:]}".encode()
        assert lines_of(data) == lines_of(file)
