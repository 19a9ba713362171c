"""R41: no field of a request, and no file, is slow to read, whatever it is full of.

`make slow-text` asks with all fillings. Here each field has one, another than the field before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from libs.work.fork_server import ProcessLimits
from libs.work.limited_processes import LimitedProcesses
from tests.slow_text import files, found
from tests.slow_text.requests import Document

LIMITS = ProcessLimits(processor_seconds_max=300, memory_bytes_max=8 << 30)
FORMS_OF_EACH_FILLING = 12
pytestmark = pytest.mark.timeout(1_800)  # half a minute of processor, behind all others


@pytest.fixture(scope="module")
def called_apart() -> Iterator[Callable[..., Any]]:
    """Calls a function in a process of its own: one that never ends fails the test."""
    processes = LimitedProcesses(found.__name__, files.__name__)
    yield lambda function, *arguments: asyncio.run(
        processes.run(function, *arguments, org="tests", limits=LIMITS)
    )
    processes.close()


def test_each_kind_of_field_is_asked() -> None:
    fields = [*Document().fields()]
    places = {(field.path.rstrip("/"), field.part, field.place) for field in fields}
    assert ("/v1/agents/validate", "body", ("toml",)) in places
    assert ("/v1/mcp-servers", "body", ("config", "custom_headers")) in places
    assert ("/v1/agents/{agent_id}/messages", "body", ("messages", 0, "content")) in places
    assert {field.part for field in fields} == {"path", "query", "header", "body", "text"}


def test_no_field_of_a_request_is_slow_to_read(called_apart: Callable[..., Any]) -> None:
    assert called_apart(found.slow_fields, 1) == []


def test_no_file_is_slow_to_read(called_apart: Callable[..., Any]) -> None:
    assert called_apart(files.slow_files, FORMS_OF_EACH_FILLING, found.SECONDS_MAX) == []
