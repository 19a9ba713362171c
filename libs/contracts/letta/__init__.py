"""The Letta V1 wire format: what clients send, and what they are served."""

from pydantic import JsonValue

type JsonObject = dict[str, JsonValue]
