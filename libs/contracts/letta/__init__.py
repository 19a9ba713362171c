"""The Letta V1 wire format: what clients send, and what they are served."""

from pydantic import JsonValue

from libs.contracts import deferred_validation  # noqa: F401

type JsonObject = dict[str, JsonValue]
