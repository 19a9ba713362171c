"""What a server says that is no message: lines of its log, and answers that are broken."""

from __future__ import annotations

import asyncio

import pytest
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

from services.tools.adapters.mcp import session
from services.tools.adapters.mcp.failures import NoMessage, may_be_the_answer
from services.tools.adapters.mcp.ports import McpFailed
from services.tools.adapters.mcp.session import McpSession
from services.tools.adapters.mcp.stdio_transport import answered_request

BROKEN = b'{"jsonrpc": "2.0", "result": {"content": ['
LOGS = [
    "INFO: working",
    "[INFO] {working}",
    "{}",
    '{"level": "info", "id": 3, "message": "working"}',
    "[1, 2]",
    '"working"',
]
ANSWERS = [
    BROKEN.decode(),
    "{{ sorry",
    '[{"id": 3',
    'data: {"jsonrpc": "2.0", "id": 3}',
    '{"jsonrpc": "2.0", "id": 3, "result": "a text"}',
]


def of_an_event(text: str) -> Exception:
    """What the SDK makes of an event over SSE that is no message."""
    with pytest.raises(ValidationError) as odd:
        jsonrpc_message_adapter.validate_json(text, by_name=False)
    return odd.value


@pytest.mark.parametrize("text", LOGS)
def test_a_line_of_a_log_is_no_answer(text: str) -> None:
    assert not may_be_the_answer(NoMessage(text.encode()))
    assert not may_be_the_answer(of_an_event(text))


@pytest.mark.parametrize("text", ANSWERS)
def test_what_looks_like_a_broken_message_may_be_the_answer(text: str) -> None:
    assert may_be_the_answer(NoMessage(text.encode()))
    assert may_be_the_answer(of_an_event(text))


def test_a_connection_that_failed_is_no_answer() -> None:
    assert not may_be_the_answer(ConnectionResetError("jsonrpc"))


@pytest.mark.parametrize(
    ("line", "request_id"),
    [
        (b'{"jsonrpc": "2.0", "id": 3, "result": {"content": [', 3),
        (b'{"id": 3, "jsonrpc": "2.0", "result": "a text"}', 3),
        (b'{"level": "info", "id": 3, "message": "working"}', None),
        (b'{"level": "info", "id": 3, "sent": {"jsonrpc": "2.0", "id": 3}}', None),
        (b'{"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": [', None),
        (b'{"jsonrpc": "2.0", "result": {"id": 3', None),
        (b'INFO: {"jsonrpc": "2.0", "id": 3', None),
    ],
)
def test_only_a_broken_answer_names_the_request_that_it_ends(
    line: bytes, request_id: int | None
) -> None:
    assert answered_request(line) == request_id


def waiting_session(monkeypatch: pytest.MonkeyPatch, requests: int) -> McpSession:
    """A session in which so many requests wait."""
    monkeypatch.setattr(session, "MISHEARD_SECONDS", 0.0)
    one = McpSession(lambda _: pytest.fail("nothing is opened"), 1)
    loop = asyncio.get_running_loop()
    one.unanswered = {loop.create_future() for _ in range(requests)}
    return one


async def test_a_broken_message_ends_the_one_request_that_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = waiting_session(monkeypatch, 1)
    one.hear(NoMessage(BROKEN))
    [waiting] = one.unanswered
    failed = await waiting
    assert isinstance(failed, McpFailed)
    assert (failed.kind, "no MCP" in failed.words) == ("protocol", True)


@pytest.mark.parametrize(("line", "requests"), [(b"INFO: working", 1), (BROKEN, 2), (BROKEN, 0)])
async def test_a_line_of_a_log_or_a_doubt_whom_it_answers_is_left_to_the_deadlines(
    monkeypatch: pytest.MonkeyPatch, line: bytes, requests: int
) -> None:
    one = waiting_session(monkeypatch, requests)
    one.hear(NoMessage(line))
    assert one.misheard is None
    assert not any(waiting.done() for waiting in one.unanswered)
