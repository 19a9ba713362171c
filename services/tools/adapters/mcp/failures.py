"""Why a server could not be asked, in the words of the port. What the SDK and httpx2 say of
themselves names addresses with their queries, so it is not handed on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

import httpx2
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, PARSE_ERROR, REQUEST_TIMEOUT
from pydantic import ValidationError

from libs.egress.failures import EgressFailed, Forbidden, TooLate
from services.tools.adapters.mcp.ports import McpFailed, McpServerConfig

SERVER_WORDS_CHARS_MAX = 500
LINE_SHOWN_CHARS_MAX = 100
# What is shorter would be found in words that are no secrets.
SECRET_CHARS_MIN = 6
LOGIN_STATUSES = (401, 403)
# How the SDK begins to say that it lost the connection or waited too long. Servers give the same
# codes to errors of their own, which are their answer.
CONNECTION_LOST = ("Connection closed", "SSE stream ")
TIMED_OUT = "Request "
# By what a server says that it knows a session no more: 404 as the protocol has it, 400 as those do
# that are made after the examples of the SDK for TypeScript.
SESSION_STATUSES = (400, 404)
SESSION_UNKNOWN = re.compile(
    r"\bsession[- ]?id\b|\bsession (?:was |is )?(?:not found|terminated|expired|unknown)\b"
    r"|\b(?:unknown|invalid|no valid) session\b",
    re.IGNORECASE,
)
# How an object begins, or a list of them; many logs write `[INFO]`.
OBJECT_BEGINS = re.compile(r"\s*(\[\s*)?\{")
# How the SDK and the bounds of this server begin to say that there was too much.
TOO_MUCH = ("the answer has more than", "Server-sent event exceeded", "a line has more than")


class NoMessage(Exception):
    """A line that is no message of the protocol; a person reads its beginning."""

    def __init__(self, line: bytes) -> None:
        self.line = line.decode("utf-8", "replace")
        super().__init__(self.line[:LINE_SHOWN_CHARS_MAX])


class AnsweredWithError(McpFailed):
    """The server answered, and its answer is that it will not: it is well."""


class SessionLost(McpFailed):
    """The server knows the session no more, and has refused a request unseen: it can be sent in
    another session."""


def session_lost(error: MCPError, status: int | None) -> SessionLost | None:
    """The exception for a server that was started anew, by its bad status; None for any other."""
    if status not in SESSION_STATUSES or not SESSION_UNKNOWN.search(error.message):
        return None
    return SessionLost("unreachable", f"it knows the session no more: {words_of(error)}")


def failure_of(error: BaseException, status: int | None = None) -> McpFailed:
    """The McpFailed that an exception stands for, given the last bad status of the server."""
    error = leaf(error)
    if isinstance(error, McpFailed):
        return error
    if isinstance(error, Forbidden):
        return McpFailed("refused", f"its address is not asked: {error}")
    for words in TOO_MUCH:
        if words in str(error):
            much = words_of(error).partition(words)[2]
            return McpFailed("too_large", f"it answered more than is read: {words}{much}")
    if isinstance(error, httpx2.HTTPStatusError):
        status = error.response.status_code
    if status in LOGIN_STATUSES:
        return McpFailed("unauthorized", f"it wants another login: it answered {status}")
    if isinstance(error, httpx2.HTTPStatusError):
        return McpFailed("unreachable", f"it answered with status {status}")
    return of_the_wire(error, status)


def of_the_wire(error: BaseException, status: int | None) -> McpFailed:
    """The failure that an exception of the protocol or of the connection means."""
    match error:
        case MCPError(code=code, message=words) if code == REQUEST_TIMEOUT and words.startswith(
            TIMED_OUT
        ):
            return McpFailed("timeout", "it did not answer in time")
        case MCPError(code=code, message=words) if code == CONNECTION_CLOSED and words.startswith(
            CONNECTION_LOST
        ):
            return McpFailed("unreachable", "it closed the connection")
        case MCPError(code=code) if code == PARSE_ERROR:
            return McpFailed("protocol", "it answered something that is no MCP")
        case MCPError():
            if status is not None and status >= 500:
                return McpFailed("unreachable", f"it answered with status {status}")
            return AnsweredWithError("protocol", f"it refused: {words_of(error)}")
        case httpx2.TimeoutException() | TooLate() | TimeoutError():
            return McpFailed("timeout", "it did not answer in time")
        case httpx2.TransportError() | EgressFailed() | OSError():
            return McpFailed("unreachable", f"nobody answers there ({type(error).__name__})")
        case ValidationError():
            return McpFailed("protocol", "it answered something that its protocol does not have")
    return McpFailed("protocol", f"it cannot be spoken with: {words_of(error)}")


def may_be_the_answer(error: Exception) -> bool:
    """Whether what is no message looks like a broken one, and not like a line of a log: it names
    the protocol, or is an object that is broken off."""
    line = line_of(error)
    if "jsonrpc" in line:
        return True
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return OBJECT_BEGINS.match(line) is not None
    return False


def line_of(error: Exception) -> str:
    """The line, or the event, that is no message; empty where the connection failed."""
    if isinstance(error, NoMessage):
        return error.line
    if not isinstance(error, ValidationError):
        return ""
    found = error.errors()[0]["input"]
    return found if isinstance(found, str) else json.dumps(found, default=str)


def leaf(error: BaseException) -> BaseException:
    """The first exception of a group that says something."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def words_of(error: BaseException) -> str:
    """The words of an exception, as far as a person reads them."""
    return " ".join(str(error).split())[:SERVER_WORDS_CHARS_MAX]


def without_secrets(failure: McpFailed, config: McpServerConfig) -> McpFailed:
    """The same failure, of a server that may have repeated what it was told."""
    words = failure.words
    for secret in secrets(config):
        words = words.replace(secret, "***")
    if words == failure.words:
        return failure
    return McpFailed(failure.kind, words, may_have_taken_effect=failure.may_have_taken_effect)


def secrets(config: McpServerConfig) -> Iterable[str]:
    """The secrets of a configuration, the longest first."""
    texts = [*config.headers.values(), *config.env.values()]
    texts += [text.partition(" ")[2] for text in config.headers.values()]
    return sorted({text for text in texts if len(text) >= SECRET_CHARS_MIN}, key=len)[::-1]
