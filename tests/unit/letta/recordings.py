"""The exchanges recorded from a genuine server, and how to compare with them."""

import json
import re
from pathlib import Path

from pydantic import JsonValue

from libs.contracts.letta import JsonObject
from libs.contracts.letta.agent_requests import AddedFields

RECORDED = Path(__file__).parents[2] / "recorded"
# Fields that only this server has: the genuine one never sent them.
NOT_IN_V1 = (*AddedFields.model_fields,)
SHORTENED = re.compile(r"<string of (\d+) characters>")


def exchange(name: str) -> JsonObject:
    """A whole recorded exchange: request, status, and body or raw_sse."""
    loaded: JsonObject = json.loads((RECORDED / f"{name}.json").read_text())
    return loaded


def body(name: str) -> JsonValue:
    """The body that the genuine server replied with."""
    return exchange(name)["body"]


def events(name: str) -> list[JsonObject]:
    """The events of a recorded stream, without the closing `[DONE]`."""
    lines = str(exchange(name)["raw_sse"]).split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]


def differences(built: JsonValue, recorded: JsonValue, at: str = "") -> list[str]:
    """Where two bodies differ: keys, their order, values; a shortened text equals any text."""
    if isinstance(built, dict) and isinstance(recorded, dict):
        keys = [key for key in built if key not in NOT_IN_V1]
        if keys != list(recorded):
            added = [key for key in keys if key not in recorded]
            advice = f"; if V1 has no {added}, say so in NOT_IN_V1 of {__file__}" if added else ""
            return [f"{at}: keys {keys} are not {list(recorded)}{advice}"]
        pairs = [(f"{at}.{key}", built[key], recorded[key]) for key in keys]
        return [found for path, b, r in pairs for found in differences(b, r, path)]
    if isinstance(built, list) and isinstance(recorded, list) and len(built) == len(recorded):
        items = enumerate(zip(built, recorded, strict=True))
        return [found for i, (b, r) in items for found in differences(b, r, f"{at}[{i}]")]
    if isinstance(built, str) and isinstance(recorded, str) and SHORTENED.fullmatch(recorded):
        return []
    same = type(built) is type(recorded) and built == recorded
    return [] if same else [f"{at}: {built!r} is not {recorded!r}"]
