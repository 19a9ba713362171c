"""The bus as an AsyncAPI 3 document, made from the registries of messages."""

from __future__ import annotations

from functools import cache
from inspect import cleandoc
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.json_schema import models_json_schema

from libs.contracts.agent import agents as agent
from libs.contracts.all_messages import load_contracts
from libs.contracts.bus_messages import (
    COMMANDS,
    EVENTS,
    LOG_COLUMNS,
    Accepted,
    Command,
    Event,
    Rejected,
)
from libs.contracts.service_registry import events_stream, names
from libs.contracts.stream_definitions import COMMANDS_STREAM, streams
from libs.contracts.version import HEELER_VERSION

SCHEMA = "#/components/schemas/{model}"
ABOUT = """Everything that happens in Heeler, as anybody with a NATS client can see it. Commands ask
for something and are answered, accepted or rejected; events are facts, in the order in which they
were committed; deltas show a run before it is history. Of an event over 512 KiB the large fields
are published as references, `{"$ref": {"log", "position", "field", "bytes"}}`: they stand in that
view in Postgres, at that position. Services that share a process hand their commands to each other
in memory, where nobody sees them. `{org}` is the organisation, `{id}` what the message is
about."""

TEXT = {"type": "string"}
COMMAND_HEADERS = {
    "ce-id": "The message's id: a second one with the same id gets the first one's answer.",
    "ce-type": "`<service>.<topic>`.",
    "ce-subject": "What the command is about.",
    "heeler-org": "The organisation.",
    "heeler-actor": "Who asks.",
    "correlation-id": "The request that all of this belongs to.",
    "causation-id": "The message that this one was sent because of.",
    "heeler-reply-to": "The subject that the answer is sent to.",
    "heeler-resent": "There from the second sending on, while no answer comes.",
    "heeler-waited": "Seconds since it was sent for the first time.",
    "traceparent": "The span that this was sent in, where somebody traces.",
}
EVENT_HEADERS = {
    "Nats-Msg-Id": "`<aggregate>.<version>`: what JetStream drops duplicates by.",
    "ce-id": "The same.",
    "ce-type": "`<service>.<topic>`.",
    "ce-source": "The service that owns the event.",
    "ce-subject": "What the event is about.",
    "ce-time": "When it happened.",
    "heeler-org": "The organisation.",
    "heeler-actor": "Who asked for it.",
    "correlation-id": "The request that it belongs to.",
    "causation-id": "The command that it was decided in.",
    "heeler-position": "Its place in the service's log: dense, from 1.",
    "heeler-aggregate": "The aggregate that it happened to.",
    "heeler-version": "Its place in the history of the aggregate: dense, from 1.",
    "heeler-schema-version": "The version of the payload's schema.",
    "heeler-by-reference": "The fields that are references, where the payload is too large for the "
    "bus; `*` is all of it.",
    "traceparent": "The span that it was decided in, where somebody traced.",
}
OPTIONAL = ("heeler-by-reference", "traceparent")
PARAMETERS = {
    "org": {"description": "The organisation."},
    "id": {"description": "What the message is about."},
}


class RunProgress(BaseModel):
    """Something that clients are told of a run, numbered, as it comes.

    Nobody keeps it: whoever misses a number reads the rows of the run instead.
    """

    model_config = ConfigDict(extra="allow")


OTHERS = (Accepted, Rejected, RunProgress)


@cache
def document() -> dict[str, Any]:
    """The AsyncAPI document of all commands and events; built once."""
    load_contracts()
    commands, events = ours(COMMANDS), ours(EVENTS)
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Heeler on the bus",
            "version": HEELER_VERSION,
            "description": " ".join(ABOUT.split()),
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "x-nats": {"streams": [stream_of(spec.name) for spec in streams()]},
        "channels": {
            **{key(name): channel(kind, "command") for name, kind in commands},
            **{key(name): channel(kind, "event") for name, kind in events},
            "run_progress": {
                "address": "agent.delta.run.{verb}.{org}.{mark}.{id}",
                "description": summary(RunProgress),
                "parameters": {
                    "verb": {"description": "What kind of telling it is."},
                    "mark": {
                        "description": "How the id ends: the same for all runs that one process of "
                        "the api began with ids of its own."
                    },
                    **PARAMETERS,
                },
                "messages": {
                    "RunProgress": {"$ref": "#/components/messages/RunProgress"},
                },
            },
            "replies": {
                "address": None,
                "description": "The answer to a command, on the subject that the command names.",
                "messages": {
                    name: {"$ref": f"#/components/messages/{name}"}
                    for name in ("Accepted", "Rejected")
                },
            },
        },
        "operations": {
            **{f"handle_{key(name)}": handling(name, kind) for name, kind in commands},
            **{f"publish_{key(name)}": publishing(name, kind) for name, kind in events},
            "tell_run_progress": {
                "action": "send",
                "channel": {"$ref": "#/channels/run_progress"},
                "summary": summary(RunProgress),
                "tags": [{"name": agent.SERVICE}],
            },
        },
        "components": {
            "messages": {
                **{kind.__name__: message(kind, "CommandHeaders") for _, kind in commands},
                **{kind.__name__: message(kind, "EventHeaders") for _, kind in events},
                **{kind.__name__: message(kind, None) for kind in OTHERS},
            },
            "schemas": schemas(),
        },
    }


def ours[M: Command | Event](registry: dict[str, type[M]]) -> list[tuple[str, type[M]]]:
    """The messages of the services, by name."""
    return sorted((name, kind) for name, kind in registry.items() if kind.service in names())


def key(name: str) -> str:
    """The key of a message within the document."""
    return name.replace(".", "_")


def summary(kind: type[BaseModel]) -> str:
    """The first sentence of a message's docstring."""
    return " ".join((kind.__doc__ or "").split("\n\n")[0].split())


def channel(kind: type[Command | Event], what: str) -> dict[str, Any]:
    """The subject of one kind of message."""
    stream = COMMANDS_STREAM if what == "command" else events_stream(kind.service)
    return {
        "address": f"{kind.service}.{what}.{kind.topic}.{{org}}.{{id}}",
        "description": summary(kind),
        "parameters": PARAMETERS,
        "messages": {kind.__name__: {"$ref": f"#/components/messages/{kind.__name__}"}},
        "x-nats": {"stream": stream},
    }


def handling(name: str, kind: type[Command]) -> dict[str, Any]:
    """A service takes a command, one process of it, and answers."""
    return {
        "action": "receive",
        "channel": {"$ref": f"#/channels/{key(name)}"},
        "summary": summary(kind),
        "tags": [{"name": kind.service}],
        "bindings": {"nats": {"queue": kind.service, "bindingVersion": "0.1.0"}},
        "reply": {
            "address": {"location": "$message.header#/heeler-reply-to"},
            "channel": {"$ref": "#/channels/replies"},
        },
    }


def publishing(name: str, kind: type[Event]) -> dict[str, Any]:
    """A service tells what happened."""
    return {
        "action": "send",
        "channel": {"$ref": f"#/channels/{key(name)}"},
        "summary": summary(kind),
        "tags": [{"name": kind.service}],
    }


def message(kind: type[BaseModel], headers: str | None) -> dict[str, Any]:
    """A kind of message; its docstring is the text."""
    found: dict[str, Any] = {
        "name": kind.__name__,
        "title": summary(kind),
        "description": cleandoc(kind.__doc__ or ""),
        "payload": {"$ref": SCHEMA.format(model=kind.__name__)},
    }
    if headers:
        found["headers"] = {"$ref": SCHEMA.format(model=headers)}
    return found


def schemas() -> dict[str, Any]:
    """The payloads and all that they are made of, and the headers."""
    commands, events = dict(ours(COMMANDS)).values(), dict(ours(EVENTS)).values()
    kinds: list[type[BaseModel]] = [*commands, *events, *OTHERS]
    _, made = models_json_schema(
        [(kind, "validation") for kind in sorted(kinds, key=lambda kind: kind.__name__)],
        ref_template=SCHEMA,
    )
    found: dict[str, Any] = made["$defs"]
    for event in events:
        found[event.__name__] = without_columns(found[event.__name__])
    found["CommandHeaders"] = headers_schema(COMMAND_HEADERS)
    found["EventHeaders"] = headers_schema(EVENT_HEADERS)
    return {name: plain(schema) for name, schema in sorted(found.items())}


def plain(schema: Any) -> Any:
    """A schema in which a discriminator is a name, as AsyncAPI has it, not an object."""
    match schema:
        case {"discriminator": {"propertyName": str(name)}}:
            return {
                **{each_name: plain(part) for each_name, part in schema.items()},
                "discriminator": name,
            }
        case dict():
            return {name: plain(part) for name, part in schema.items()}
        case list():
            return [plain(part) for part in schema]
        case _:
            return schema


def without_columns(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of an event without what the headers and the log say of it."""
    fields = schema["properties"].items()
    return {
        **schema,
        "properties": {name: field for name, field in fields if name not in LOG_COLUMNS},
        "required": [name for name in schema["required"] if name not in LOG_COLUMNS],
    }


def headers_schema(headers: dict[str, str]) -> dict[str, Any]:
    """Headers are text, and all but the optional ones are always there."""
    return {
        "type": "object",
        "properties": {name: {**TEXT, "description": text} for name, text in headers.items()},
        "required": [name for name in headers if name not in OPTIONAL],
    }


def stream_of(name: str) -> dict[str, Any]:
    """A JetStream stream as it is declared."""
    spec = next(spec for spec in streams() if spec.name == name)
    return {
        "name": spec.name,
        "subjects": list(spec.subjects),
        "retention": "workqueue" if spec.work_queue else "limits",
        "max_age_seconds": spec.age_seconds_max,
    }
