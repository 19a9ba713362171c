"""Schemas of the answers of operations, for the OpenAPI document.

V1's own answers have the schemas of its SDK, which `python -m deploy.response_schemas` writes into
`response_schemas.json`. For what the SDK does not know, the words that a route handler says of its
answer (`returns`) say which schema it has.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from litestar.handlers import HTTPRouteHandler

from services.api.openapi.operation import Description, documented_path

FILE = Path(__file__).with_suffix(".json")
REFERENCE = "#/components/schemas/{model}"

type Schema = dict[str, Any]


def of(model: str) -> Schema:
    """A schema of the SDK."""
    return {"$ref": REFERENCE.format(model=model)}


def list_of(schema: Schema) -> Schema:
    """The schema of a list of these."""
    return {"type": "array", "items": schema}


OBJECT: Schema = {"type": "object"}
OBJECTS = list_of(OBJECT)
NUMBER: Schema = {"type": "integer", "minimum": 0}
NULL: Schema = {"type": "null"}
ANY_JSON: Schema = {"type": ["object", "array", "string", "number", "boolean", "null"]}

# What route handlers say that they return, where the SDK does not know the operation.
BY_WORDS: dict[str, Schema] = {
    **{
        words: of(model)
        for words, model in (
            ("agent", "AgentState"),
            ("block", "BlockResponse"),
            ("memory", "Memory"),
            ("run", "Run"),
            ("step", "Step"),
            ("tool", "Tool"),
        )
    },
    "agents": list_of(of("AgentState")),
    "blocks": list_of(of("BlockResponse")),
    "passages": list_of(of("Passage")),
    "runs": list_of(of("Run")),
    "tools": list_of(of("Tool")),
    **dict.fromkeys(
        (
            *("health", "a JSON-RPC answer of MCP", "dead letter", "context window", "the answer"),
            *(
                "what the model would be asked",
                "what is left out",
                "which tools may be called",
                "call of a tool",
            ),
            *("embedding of an archive", "embedding of a folder", "lines", "difference"),
            *("what there is in all folders", "job", "how the server has fared", "settings"),
            *("what the agent's tools used", "how long the run took, and what it used"),
            *("variable", "JSON schema", "tool and arguments", "servers by name", "server"),
            *("projects", "how many agents are deleted"),
            *("report", "what the tool returned", "message"),
            *("group", "agent group", "state of a group", "the group's run"),
            *("what the members say", "what became of each run"),
            *("capability", "subscription", "routed message"),
            *("schedule", "schedules of an agent", "success", "firing", "next times of a schedule"),
            "history of a schedule",
            *("identity", "project", "agent file", "configuration of the server"),
            "what is wrong with a file",
            *("replay of a run", "configuration of an agent"),
            *("page of agents", "native agent", "answer of an agent"),
            *("import", "ids of the imported agents"),
            *("fleet", "plan of a fleet", "apply of a fleet", "fleet of an agent"),
            *("batch", "batch job", "the messages of a batch", "a status for each item"),
            *("template", "page of templates", "page of template versions", "agents of a template"),
            *("snapshot of a template", "entities of a deployment", "what was deleted"),
        ),
        OBJECT,
    ),
    **dict.fromkeys(
        (
            *("dead letters", "what was found", "versions", "jobs", "all settings", "variables"),
            *("calls of tools", "servers", "tools as the server describes them"),
            *("groups", "agent groups", "members of a group", "runs of the group"),
            "messages",
            *("identities", "imports"),
            *("fleets", "members of a fleet", "applies of a fleet", "units of an apply"),
            *("capabilities", "agents with a capability", "topics", "subscribers"),
            *("routed messages", "schedules", "firings"),
            *("batches", "items of a batch", "batch jobs", "replays of a run"),
            "events",
        ),
        OBJECTS,
    ),
    **dict.fromkeys(
        ("resources", "prompts", "the parts of a resource", "the messages of a prompt"), ANY_JSON
    ),
    **{
        f"number of {things}": NUMBER
        for things in ("agents", "blocks", "folders", "groups", "identities", "tools")
    },
    **dict.fromkeys(("nothing", "null"), NULL),
    "size in GB": {"type": "number", "minimum": 0},
    "id of the folder": {"type": "string"},
}

# Operations of V1 that answer with more than V1 does.
MORE_THAN_V1: dict[str, Schema] = {
    "POST /v1/agents/{agent_id}/summarize": {"anyOf": [of("CompactionResponse"), OBJECT]}
}


@cache
def written_schemas() -> dict[str, dict[str, Schema]]:
    """`operations` has the schemas of answers, `schemas` what these refer to."""
    found: dict[str, dict[str, Schema]] = json.loads(FILE.read_text())
    return found


def response_schema(handler: HTTPRouteHandler, method: str) -> Schema:
    """The schema of an operation's answer. Raises KeyError if none is declared."""
    known = {**written_schemas()["operations"], **MORE_THAN_V1}
    for path in sorted(handler.paths):
        if schema := known.get(f"{method} {documented_path(path)}"):
            return schema
    described: Description = handler.opt["description"]
    return BY_WORDS[described.gives]
