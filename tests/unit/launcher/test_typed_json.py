"""What the launcher keeps in files, read as dataclasses."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from deploy.embedded import typed_json
from deploy.embedded.state import InstanceState, PartState, ProcessMark

STATE = InstanceState(
    phase="running",
    supervisor=ProcessMark(7, 1.5),
    notices=["mended"],
    ports={"api": 8283},
    parts={"nats": PartState("nats", "running", ProcessMark(8, 2.0), restarts=1)},
)


def test_a_state_that_was_written_is_read_as_it_was():
    assert typed_json.read(InstanceState, json.dumps(asdict(STATE))) == STATE


def test_fields_of_a_later_release_are_left_out():
    assert typed_json.read(ProcessMark, '{"pid": 7, "created": 1, "host": "a"}') == ProcessMark(
        7, 1
    )


@pytest.mark.parametrize(
    "document",
    [
        *("", "{", "[]", "null", '{"phase": "running"}'),
        '{"phase": 1, "supervisor": null}',
        '{"phase": "running", "supervisor": {"pid": "7", "created": 1}}',
        '{"phase": "running", "supervisor": null, "ports": {"api": true}}',
        '{"phase": "running", "supervisor": null, "parts": {"nats": {"name": "nats", "mark": []}}}',
    ],
)
def test_a_document_that_does_not_fit_is_refused(document: str):
    with pytest.raises(ValueError):  # noqa: PT011
        typed_json.read(InstanceState, document)
