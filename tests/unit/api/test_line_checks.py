"""Lines from outside: what is sound, and what is refused by its line."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from libs.contracts.agent.agents import AgentCreated
from libs.contracts.agent.conversations import MessageAppended, main_conversation
from libs.contracts.api.import_errors import BadSource
from libs.contracts.bus_messages import Event
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.memory.archives import PassageCreated, own_archive_id
from libs.contracts.memory.blocks import BlockCreated
from services.api.domain.id_map import IdMap
from services.api.domain.import_policy import PresentThings, decide_ids
from services.api.domain.line_checks import LineChecks, depth_of
from tests.contract.examples import AGENT, BLOCK
from tests.contract.histories import one

type Lines = list[dict[str, Any]]

CONVERSATION = main_conversation(AGENT)
ARCHIVE = "archive-77777777-7777-4777-8777-777777777777"
NOBODY = "agent-99999999-9999-4999-8999-999999999999"


def history(service: str, aggregate_id: str, *events: Event, **fields: Any) -> dict[str, Any]:
    """A line with the events of an aggregate."""
    told = [
        {
            "topic": event.topic,
            "payload": json.loads(event.payload_json()),
            "occurred_at": "2026-01-02T03:04:05Z",
        }
        for event in events
    ]
    part = {"aggregate_id": aggregate_id, "first_version": 1, "events": told, **fields}
    return {"kind": "history", "service": service, "history": part}


def sound() -> Lines:
    """A small agent, without the footer."""
    agent = one(AgentCreated)
    agent = agent.model_copy(update={"config": agent.config.model_copy(update={"id": AGENT})})
    return [
        {
            "kind": "header",
            "format": "heeler-agent",
            "version": 1,
            "written_by": "heeler 0",
            "exported_at": "2026-01-02T03:04:05Z",
            "agent_ids": [AGENT],
        },
        {"kind": "definition", "of": "archive", "id": ARCHIVE, "value": {"name": "facts"}},
        history("memory", BLOCK, one(BlockCreated)),
        history("memory", "passage-1", one(PassageCreated, archive_id=ARCHIVE)),
        history("agent", CONVERSATION, one(MessageAppended, agent_id=AGENT)),
        history("agent", AGENT, agent),
    ]


def written(lines: Lines, **footer: Any) -> list[bytes]:
    """The lines as bytes, with their footer."""
    raw = [json.dumps(line).encode() + b"\n" for line in lines]
    counts = Counter(line.get("kind") for line in lines)
    end = {"kind": "footer", "counts": counts, "sha256": hashlib.sha256(b"".join(raw)).hexdigest()}
    return [*raw, json.dumps({**end, **footer}).encode() + b"\n"]


def check(raw: list[bytes], **fields: Any) -> LineChecks:
    """What is known of lines that are all sound. Raises BadSource."""
    checks = LineChecks(**fields)
    for line in raw:
        checks.take(line)
    checks.check_end()
    return checks


def test_a_sound_file_says_what_is_in_it() -> None:
    checks = check(written(sound()))
    assert checks.so_far.model_dump() == {"lines": 7, "events": 4}
    assert checks.own == {ARCHIVE, BLOCK, CONVERSATION}
    assert checks.agent_ids == (AGENT,)


def changed(number: int, **fields: Any) -> Callable[[Lines], Lines]:
    """The lines with fields of one of them changed."""

    def change(lines: Lines) -> Lines:
        lines[number] = {**lines[number], **fields}
        return lines

    return change


def past(number: int, **fields: Any) -> Callable[[Lines], Lines]:
    """The lines with fields of a history changed."""

    def change(lines: Lines) -> Lines:
        lines[number]["history"] = {**lines[number]["history"], **fields}
        return lines

    return change


def event(number: int, **fields: Any) -> Callable[[Lines], Lines]:
    """The lines with fields of the first event of a history changed."""

    def change(lines: Lines) -> Lines:
        lines[number]["history"]["events"][0] |= fields
        return lines

    return change


@pytest.mark.parametrize(
    ("change", "entry", "words"),
    [
        (lambda lines: lines[1:], "line 1", "the first line has to be the header"),
        (lambda lines: [lines[0], *lines], "line 2", "there is a header already"),
        (lambda lines: [lines[0], *lines[2:]], "line 3", "is not defined before it"),
        (lambda lines: lines[:-1], "file", f"agent {AGENT} has no history"),
        (
            lambda lines: [*lines[:4], lines[5]],
            "line 5",
            f"the history of {CONVERSATION} is missing",
        ),
        (lambda lines: [*lines, lines[1]], "line 7", "is defined twice"),
        (changed(0, version=2), "line 1", "import it into a newer one"),
        (changed(0, format="other"), "line 1", "format"),
        (changed(0, agent_ids=[]), "line 1", "1 to 20000 agents"),
        (changed(0, agent_ids=["x"]), "line 1", "x is no id of an agent"),
        (changed(1, attached_to=[NOBODY]), "line 2", "is not one of the header's"),
        (changed(1, of="planet"), "line 2", "of"),
        (changed(1, kind="gift"), "line 2", "does not match any of the expected tags"),
        (changed(2, service="tools"), "line 3", "service"),
        (past(2, first_version=2), "line 3", "has to go on with version 1, and not 2"),
        (past(2, complete=False), "file", f"the history of {BLOCK} is not complete"),
        (past(4, aggregate_id="conv-1"), "line 5", "is not the conversation that"),
        (past(5, aggregate_id=NOBODY), "line 6", "is not one of the header's"),
        (event(2, topic="block.exploded"), "line 3", "is not known"),
        (event(2, schema_version=9), "line 3", "is not known"),
        (event(2, payload={}), "line 3", "event 1: `block`: Field required"),
        (event(5, topic="agent.secrets_replaced"), "line 6", "secrets are lines of their own"),
        (event(4, payload={"agent_id": NOBODY}), "line 5", "is not one of the header's"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(
    change: Callable[[Lines], Lines], entry: str, words: str
) -> None:
    with pytest.raises(BadSource) as bad:
        check(written(change(sound())))
    [error] = bad.value.errors
    assert error.entry == entry
    assert words in error.message


def test_a_footer_says_whether_anything_is_missing_or_was_changed() -> None:
    lines = written(sound())
    with pytest.raises(BadSource, match="the footer is missing"):
        check(lines[:-1])
    with pytest.raises(BadSource, match="it comes after the footer"):
        check([*lines, lines[1]])
    with pytest.raises(BadSource, match="the digest is another one"):
        check([lines[0].replace(b"heeler 0", b"heeler 1"), *lines[1:]])
    with pytest.raises(BadSource, match="the footer counts"):
        check(written(sound(), counts={"history": 1}))


@pytest.mark.parametrize("line", [b"", b"\x00\n", b"{\n", b"[]\n", b"null\n", b"1e999\n", b'"\n'])
def test_what_is_no_line_is_refused(line: bytes) -> None:
    with pytest.raises(BadSource):
        check([line])


def test_what_no_text_or_clock_can_say_is_refused() -> None:
    lines = written(sound())
    check([*lines], now=datetime(2026, 1, 2, tzinfo=UTC))
    with pytest.raises(BadSource, match="is in the future"):
        check(lines, now=datetime(2025, 1, 1, tzinfo=UTC))
    with pytest.raises(BadSource, match="no text has a NUL"):
        check(written(changed(0, written_by="a\x00b")(sound())))
    check(written(changed(0, written_by="a\\u0000b")(sound())))


def test_lists_in_lists_are_counted_outside_of_texts() -> None:
    assert depth_of(b'{"a": [[{}]]}') == 4
    assert depth_of(b'{"a": "[[[[\\"[[[["}') == 1
    with pytest.raises(BadSource, match="lists and objects in each other"):
        check([b"[" * 1_000_000])


def test_other_ids_are_the_same_each_time_and_stand_wherever_the_old_ones_stood() -> None:
    ids = IdMap("import-1", [BLOCK], [AGENT])
    agent = derived_id("agent", "import-1", AGENT)
    block = derived_id("block", "import-1", BLOCK)
    text = f'{{"{BLOCK}": 1, "text": "I am {AGENT}, not {NOBODY}", "at": "{CONVERSATION}"}}'
    new = json.loads(ids.apply(text.encode()))
    assert new == {
        block: 1,
        "text": f"I am {agent}, not {NOBODY}",
        "at": main_conversation(agent),
    }
    assert ids.of(own_archive_id(AGENT)) == own_archive_id(agent)
    message = "message-12345678-1234-4234-8234-123456789012"
    assert ids.of(message) == derived_id("message", "import-1", message)
    assert IdMap("import-2", [BLOCK], [AGENT]).of(BLOCK) != block


ALL = PresentThings((AGENT,), frozenset({BLOCK}), frozenset({ARCHIVE}), frozenset({BLOCK, ARCHIVE}))


def test_what_is_there_decides_about_ids() -> None:
    nothing = PresentThings((), frozenset(), frozenset(), frozenset())
    for policy in (None, "fail", "merge", "replace"):
        assert decide_ids(policy, nothing).keeps_ids
    assert not decide_ids(None, ALL).keeps_ids
    assert not decide_ids("copy", nothing).keeps_ids
    replaced = decide_ids("replace", ALL)
    assert (replaced.replaced, replaced.present) == ((AGENT,), {BLOCK, ARCHIVE})
    for policy in ("fail", "merge"):
        with pytest.raises(BadSource) as bad:
            decide_ids(policy, ALL)
        assert bad.value.is_conflict
        assert bad.value.errors[0].entry == AGENT
    elsewhere = PresentThings((), frozenset(), frozenset({ARCHIVE}), frozenset())
    for policy in ("fail", "merge", "replace"):
        with pytest.raises(BadSource):
            decide_ids(policy, elsewhere)
