"""Recorded requests sent again, in their order, and what comes back compared by its shape.

The ids in a recorded request are those of the genuine server: each is replaced by the id that the
same place of an earlier answer has here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import groupby

import httpx
from pydantic import JsonValue

from libs.contracts.letta import JsonObject
from tests.e2e.asking import ID
from tests.unit.letta import recordings
from tests.unit.letta.recordings import NOT_IN_V1

ORDER = recordings.RECORDED / "exchanges.txt"
# Requests whose bodies no JSON can hold.
BODIES = {"error_422_malformed_json": b"{bad"}
# An agent of the older loop is asked by these. The recorded model thought among the arguments of
# its calls, and ended with words; ours does what it is told.
OLDER_LOOP = re.compile(
    r"memgpt_v2|input_string|streaming_true|background|async|conversation_message_"
)
THINKING = '"thinking": "so", "request_heartbeat": true'
WORDS = f'CALL:send_message:{{{THINKING}, "message": "Hello"}}'
# Objects that say something else for each model, tool or agent.
FREE = {"llm_config", "embedding_config", "model_settings", "metadata", "metadata_", "json_schema"}
ID_KEY = re.compile(rf"^{ID.pattern}$")


def names() -> list[str]:
    """The recorded exchanges in the order in which they were recorded."""
    return ORDER.read_text().split()


class Replay:
    """Sends recorded requests to a server, and remembers which id stands for which."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http
        self._ids: dict[str, str] = {}
        self._exported = b""

    def differences(self, name: str) -> list[str]:
        """Where the answer to a recorded request has another shape than the recorded one."""
        recorded = recordings.exchange(name)
        answer = self._send(name, recorded["request"])
        if name == "agent_export":
            self._exported = answer.content
        status = (
            [] if answer.status_code == recorded["status"] else [f"status {answer.status_code}"]
        )
        if "raw_sse" in recorded:
            return status + _between_streams(str(recorded["raw_sse"]), answer.text)
        built = json.loads(answer.text) if answer.text else None
        self._learn(recorded.get("body"), built)
        return status + list(_between(recorded.get("body"), built, "body"))

    def _send(self, name: str, request: JsonValue) -> httpx.Response:
        assert isinstance(request, dict)
        known = ID.sub(lambda found: self._ids.get(found[0], found[0]), json.dumps(request))
        sent = json.loads(known)
        if OLDER_LOOP.search(name) and isinstance(sent["body"], dict):
            _script(sent["body"])
        if name == "agent_import":  # of the file that was exported just before
            file = {"file": ("golden-agent.af", self._exported)}
            return self._http.request(sent["method"], sent["path"], files=file)
        body = BODIES.get(name) or (_encoded(sent["body"]))
        return self._http.request(
            sent["method"],
            sent["path"],
            content=body,
            headers={"content-type": "application/json"},
            follow_redirects=False,
        )

    def _learn(self, recorded: JsonValue, built: JsonValue) -> None:
        if isinstance(recorded, dict) and isinstance(built, dict):
            for key in recorded.keys() & built.keys():
                self._learn(recorded[key], built[key])
        elif isinstance(recorded, list) and isinstance(built, list):
            for record, other in zip(recorded, built, strict=False):
                self._learn(record, other)
        elif isinstance(recorded, str) and isinstance(built, str) and ID.fullmatch(recorded):
            self._ids.setdefault(recorded, built)


def _script(body: JsonObject) -> None:
    """Tell our scripted model to do in the older loop what the recorded one did by itself."""
    if "input" in body:
        body["input"] = f"{body['input']} {WORDS}"
    messages = body.get("messages")
    for message in messages if isinstance(messages, list) else []:
        assert isinstance(message, dict)
        thought = re.sub(r":\{", f":{{{THINKING}, ", str(message["content"]))
        message["content"] = f"{thought} {WORDS}"


def _encoded(body: JsonValue) -> bytes | None:
    return None if body is None else json.dumps(body).encode()


def _between_streams(recorded: str, built: str) -> list[str]:
    """What differs in the order of the events, and in the first event of each kind."""
    kinds, ours = _kinds(recorded), _kinds(built)
    if kinds != ours:
        return [f"events {ours}"]
    firsts, our_firsts = _firsts(recorded), _firsts(built)
    return [found for kind in firsts for found in _between(firsts[kind], our_firsts[kind], kind)]


def _kinds(raw: str) -> list[str]:
    events = [str(event.get("message_type")) for event in _events(raw)]
    return [kind for kind, _ in groupby(kind for kind in events if kind != "ping")]


def _firsts(raw: str) -> dict[str, JsonObject]:
    events = reversed(list(_events(raw)))
    return {
        str(event["message_type"]): event for event in events if event["message_type"] != "ping"
    }


def _events(raw: str) -> Iterator[JsonObject]:
    lines = (line.removeprefix("data: ") for line in raw.split("\n") if line.startswith("data: {"))
    return map(json.loads, lines)


def _between(recorded: JsonValue, built: JsonValue, at: str) -> Iterator[str]:
    """Fields too many or missing and values of another type; null is of any type."""
    if isinstance(recorded, dict) and isinstance(built, dict):
        yield from _between_objects(_by_kind(recorded), _by_kind(built), at)
    elif isinstance(recorded, list) and isinstance(built, list):
        if recorded and built:
            yield from _between(recorded[0], built[0], f"{at}[]")
        elif recorded or built:
            yield f"{at} is empty on one side"
    elif None not in (recorded, built) and _kind(recorded) != _kind(built):
        yield f"{at} is a {_kind(built)}"


def _between_objects(recorded: JsonObject, built: JsonObject, at: str) -> Iterator[str]:
    yield from (f"{at}.{key} is missing" for key in recorded.keys() - built.keys())
    added = built.keys() - recorded.keys() - {*NOT_IN_V1}
    yield from (f"{at}.{key} is too many" for key in added)
    for key in recorded.keys() & built.keys() - FREE:
        yield from _between(recorded[key], built[key], f"{at}.{key}")


def _by_kind(fields: JsonObject) -> JsonObject:
    return {ID_KEY.sub("<id>", key): value for key, value in fields.items()}


def _kind(value: JsonValue) -> str:
    return (
        "number"
        if isinstance(value, int | float) and not isinstance(value, bool)
        else type(value).__name__
    )
