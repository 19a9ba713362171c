"""The error bodies of the V1 API, and the ids it accepts.

Every function returns a body; the HTTP shell picks the status that its docstring names.
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import JsonValue, ValidationError
from pydantic_core import ErrorDetails

from libs.contracts.agent.provider_hints import provider_hint
from libs.contracts.letta import JsonObject

type Location = Literal["body", "query", "path"]

_UUID4 = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
_EXAMPLE = "123e4567-e89b-42d3-8456-426614174000"
UUID_CHARS = 36
ERRORS_SHOWN_MAX = 50
INPUT_SHOWN_CHARS_MAX = 2_000

# What an id's prefix stands for, where it is not the word itself.
KINDS = {"conv": "conversation", "source": "folder", "group_run": "group run"}

MESSAGES_EMPTY: JsonObject = {"detail": "Messages must not be empty"}
UNKNOWN: JsonObject = {"detail": "An unknown error occurred"}


class InvalidArgument(Exception):
    """A request that is well formed but cannot be granted: 400.

    Not a ValueError, so that it leaves a pydantic validator as it is.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.body: JsonObject = {"detail": f"INVALID_ARGUMENT: {message}"}


def validation_detail(exc: ValidationError, location: Location) -> JsonObject:
    """The 422 body for input that does not fit its model."""
    errors = exc.errors(include_url=False)[:ERRORS_SHOWN_MAX]
    return _stringified([_located(error, location) for error in errors])


def malformed_json(exc: json.JSONDecodeError) -> JsonObject:
    """The 422 body for a request body that is not JSON."""
    return _stringified(
        [
            {
                "type": "json_invalid",
                "loc": ("body", exc.pos),
                "msg": "JSON decode error",
                "input": {},
                "ctx": {"error": exc.msg},
            }
        ]
    )


def unreadable_value(path: Sequence[str | int], message: str) -> JsonObject:
    """The 422 body for a value that no field may have."""
    error: dict[str, object] = {"type": "value_error", "loc": ("body", *path), "msg": message}
    return _stringified([error])


def missing_body() -> JsonObject:
    """The 422 body for a request without the body that it needs."""
    error: dict[str, object] = {
        "type": "missing",
        "loc": ("body",),
        "msg": "Field required",
        "input": None,
    }
    return _stringified([error])


def id_pattern(prefix: str) -> str:
    """The regular expression of the ids of one kind."""
    return f"^{prefix}-{_UUID4}$"


def check_id(prefix: str, value: str, parameter: str = "") -> JsonObject | None:
    """None for an id of this kind, else the 422 body; the parameter defaults to `<prefix>_id`."""
    pattern = id_pattern(prefix)
    if re.fullmatch(pattern[1:-1], value):
        return None
    parameter = parameter or f"{KINDS.get(prefix, prefix)}_id"
    error: dict[str, object] = {
        "type": "string_pattern_mismatch",
        "loc": ("path", parameter),
        "msg": f"String should match pattern '{prefix}-{{uuid4}}'",
        "input": _shown(value),
        "ctx": {"pattern": pattern},
    }
    return {**_stringified([error]), "examples": [f"{prefix}-{_EXAMPLE}"]}


def not_found(kind: str, id: str) -> JsonObject:
    """The 404 body for a resource that is not there: `kind` as in "agent" or "block"."""
    if kind == "block":
        return {"detail": f"Block with id '{id}' not found"}
    if kind == "mcp_server":
        return {"detail": f"MCP server with ID {id} not found"}
    if kind == "letter":
        return {"detail": f"Dead letter with id '{id}' not found"}
    return {"detail": f"{KINDS.get(kind, kind).capitalize()} with ID {id} not found"}


def block_label_not_found(label: str, agent_id: str) -> JsonObject:
    """The 404 body for a label that none of the agent's blocks has."""
    return {"detail": f"No block with label '{label}' found for agent '{agent_id}'"}


def handle_not_found(handle: str, known: Sequence[str] = ()) -> JsonObject:
    """The 404 body for a model that no provider offers. Where its provider offers nothing at all,
    it says how to configure that."""
    reason = f"NOT_FOUND: Handle {handle} not found, must be one of {list(known)}"
    provider = handle.partition("/")[0]
    is_configured = any(each_handle.partition("/")[0] == provider for each_handle in known)
    hint = "" if is_configured else provider_hint(handle)
    return {"detail": f"{reason}. {hint}" if hint else reason}


def conversation_busy(run_id: str | None = None) -> JsonObject:
    """The 409 body while another request holds the conversation."""
    body: JsonObject = {
        "detail": "CONFLICT: Cannot send a new message: Another request is currently being "
        "processed for this conversation. Please wait for the current request to complete."
    }
    return body if run_id is None else {**body, "run_id": run_id}


def approval_pending(request_id: str) -> JsonObject:
    """The 409 body while a tool call waits for the user's answer."""
    return {
        "detail": {
            "code": "PENDING_APPROVAL",
            "message": "CONFLICT: Cannot send a new message: The agent is waiting for approval on a"
            " tool call. Please approve or deny the pending request before continuing.",
            "pending_request_id": request_id,
        }
    }


def llm_failure(type: str, message: str, detail: str | None = None) -> JsonObject:
    """The body of the `error.type` family, for failures of models and MCP servers."""
    return {"error": {"type": type, "message": message, "detail": detail}}


def mcp_connection_failed(detail: str) -> JsonObject:
    """The 502 body for an MCP server that cannot be asked."""
    return llm_failure("mcp_connection_error", "Failed to connect to MCP server.", detail)


def mcp_server_unavailable(name: str, error: str) -> JsonObject:
    """The 404 body for an MCP server whose tools cannot be read again."""
    message = f"Could not connect to MCP server {name} to resync tools"
    return {"detail": {"code": "MCPServerUnavailable", "message": message, "error": error}}


def _located(error: ErrorDetails, location: Location) -> dict[str, object]:
    found: dict[str, object] = {
        "type": error["type"],
        "loc": (location, *(_class_name(step) for step in error["loc"])),
        "msg": error["msg"],
        "input": _shown(error["input"]),
    }
    if "ctx" in error:
        found["ctx"] = error["ctx"]
    return found


def _shown(sent: object) -> object:
    """The value that was sent, or its beginning: a body is not sent back whole."""
    written = sent if isinstance(sent, str) else repr(sent)
    if len(written) <= INPUT_SHOWN_CHARS_MAX:
        return sent
    return f"{written[:INPUT_SHOWN_CHARS_MAX]}... ({len(written)} characters)"


def _class_name(step: int | str) -> int | str:
    """The model of a union that was tried, without the validators pydantic wraps it in."""
    if not isinstance(step, str) or not step.startswith("function-"):
        return step
    return step.rstrip("]").split(", ")[-1]


def _stringified(errors: Iterable[dict[str, object]]) -> JsonObject:
    # `detail` is the repr of a list, not a list: clients of the V1 API show it as it is.
    detail: JsonValue = repr(list(errors))
    return {"trace_id": "", "detail": detail}
