"""The document of the bus: as committed, valid, and true of real messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from faststream.specification.asyncapi.v3_0_0.schema import ApplicationSchema
from jsonschema import Draft202012Validator

from deploy.asyncapi import PAGE, page_text
from libs.bus import message_headers
from libs.bus.ports import outgoing
from libs.contracts.asyncapi import COMMAND_HEADERS, EVENT_HEADERS, document, ours
from libs.contracts.bus_messages import COMMANDS, EVENTS, Command, Context, Event
from tests.contract import examples

MESSAGES: list[Command | Event] = [*examples.COMMANDS, *examples.EVENTS]


def references(part: Any) -> Iterator[str]:
    """Every `$ref` below."""
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for below in part.values():
            yield from references(below)
    elif isinstance(part, list):
        for below in part:
            yield from references(below)


def resolved(reference: str) -> Any:
    """What a `$ref` means."""
    found: Any = document()
    for step in reference.removeprefix("#/").split("/"):
        found = found[step]
    return found


def test_the_committed_document_is_current() -> None:
    assert PAGE.read_text() == page_text(), "run python -m deploy.asyncapi, and look at the change"


def test_the_document_is_valid_asyncapi() -> None:
    ApplicationSchema.model_validate(document())
    for reference in references(document()):
        assert resolved(reference) is not None, reference
    for name, schema in document()["components"]["schemas"].items():
        Draft202012Validator.check_schema(schema)
        assert name.isidentifier()


def test_every_message_has_a_channel_an_operation_and_its_docstring() -> None:
    channels = {channel["address"]: channel for channel in document()["channels"].values()}
    operations = document()["operations"]
    for what, registry in (("command", COMMANDS), ("event", EVENTS)):
        for name, kind in ours(registry):
            subject = f"{kind.service}.{what}.{kind.topic}.{{org}}.{{id}}"
            assert kind.__name__ in channels[subject]["messages"]
            message = document()["components"]["messages"][kind.__name__]
            assert message["title"]
            assert " ".join((kind.__doc__ or "").split()).startswith(message["title"])
            verb = {"command": "handle", "event": "publish"}[what]
            assert operations[f"{verb}_{name.replace('.', '_')}"]["summary"] == message["title"]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda example: type(example).__name__)
def test_a_real_message_fits_its_schema(message: Command | Event) -> None:
    schema = {**document(), "$ref": f"#/components/schemas/{type(message).__name__}"}
    payload = message.payload_json() if isinstance(message, Event) else message.model_dump_json()
    Draft202012Validator(schema).validate(json.loads(payload))


def test_real_headers_are_the_documented_ones() -> None:
    context = Context("m-1", traceparent=f"00-{'1' * 32}-{'1' * 16}-01")
    command = examples.COMMANDS[0]
    sent = message_headers.of_command(outgoing(command, context), "reply")
    assert {*sent, message_headers.RESENT, message_headers.WAITED} == set(COMMAND_HEADERS)
    untraced = message_headers.of_command(outgoing(command, Context("m-1")), "reply")
    assert {*untraced, message_headers.RESENT, message_headers.WAITED} == set(COMMAND_HEADERS) - {
        "traceparent"
    }
    assert {"traceparent", "ce-id", "heeler-position"} <= set(EVENT_HEADERS)


@pytest.mark.parametrize(
    ("waited", "seconds"),
    [(None, 0), ("1.5", 1.5), ("soon", 0), ("nan", 0), ("-1", 0), ("1e99", 0)],
)
def test_a_context_survives_its_way(waited: str | None, seconds: float) -> None:
    context = Context("m-1", traceparent=f"00-{'1' * 32}-{'1' * 16}-01")
    sent = message_headers.of_command(outgoing(examples.COMMANDS[0], context), "reply")
    if waited is not None:
        sent[message_headers.WAITED] = waited
    sent_at = (examples.AT - timedelta(seconds=seconds)).isoformat()
    assert message_headers.context_of(sent, "stamp", examples.AT) == replace(
        context, sent_at=sent_at
    )
