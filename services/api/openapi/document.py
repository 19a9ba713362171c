"""The OpenAPI document, made from the routes."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from litestar import Litestar
from litestar.handlers import HTTPRouteHandler
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from libs.contracts.version import HEELER_VERSION
from services.api.http.authentication import CHALLENGE, OAUTH_CALLBACK, OPEN_PATHS
from services.api.openapi.operation import Description, documented_path
from services.api.openapi.response_schemas import (
    REFERENCE,
    Schema,
    response_schema,
    written_schemas,
)

EVENT_STREAM = "text/event-stream"
EVENTS: Schema = {"type": "string", "description": "Events; the data of each is JSON"}
PAGE: Schema = {"type": "string"}
NO_CONTENT = 204
# Forms of files where they are bodies, by what the schemas of their parts are called after: these
# have names that bodies and answers of V1 have, too.
FORMS = {"libs.agent_toml.": "AgentFile", "libs.agent_document.": "Fleet"}
SENTENCE_END = re.compile(r"(?<=[.!?]) ")

# A server without a password wants neither, which is what the last one says.
SECURITY: list[dict[str, list[str]]] = [{"bearer": []}, {"bare_password": []}, {}]
SECURITY_SCHEMES = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "The password of the server, which the SDKs send as their key",
    },
    "bare_password": {
        "type": "apiKey",
        "in": "header",
        "name": "X-BARE-PASSWORD",
        "description": "`password`, a space, and the password of the server",
    },
}
ERROR: Schema = {
    "type": "object",
    "properties": {"detail": {"description": "What is wrong: a sentence, or V1's list of fields"}},
}
RETRY_AFTER = {"description": "After how many seconds", "schema": {"type": "string"}}
PROBLEMS: dict[str, Schema] = {
    "Unauthorized": {
        "description": "The server has a password, and this request has not",
        "headers": {
            "WWW-Authenticate": {
                "description": "How to send it",
                "schema": {"type": "string", "example": CHALLENGE},
            }
        },
    },
    "Problem": {"description": "What is wrong with the request, and how to mend it"},
    "Unavailable": {
        "description": "Try again: the database or the bus is away",
        "headers": {"Retry-After": RETRY_AFTER},
    },
}


@cache
def document_of(app: Litestar) -> bytes:
    """The whole document as JSON."""
    paths: dict[str, dict[str, Any]] = {}
    for path, handler in described_routes(app.state.handlers):
        clean = documented_path(path)
        for method in handler.http_methods:
            paths.setdefault(clean, {})[method.lower()] = operation(clean, method, handler)
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "Heeler",
            "version": HEELER_VERSION,
            "description": "Stateful agents: the Letta V1 REST API, kept alive.",
        },
        "security": SECURITY,
        "paths": dict(sorted(paths.items())),
        "components": components(app.state.handlers),
    }
    return json.dumps(document).encode()


def described_routes(handlers: Iterable[HTTPRouteHandler]) -> list[tuple[str, HTTPRouteHandler]]:
    """Each path of each handler that the document describes."""
    return [
        (path, handler)
        for handler in handlers
        for path in sorted(handler.paths)
        if "description" in handler.opt
    ]


def components(handlers: Iterable[HTTPRouteHandler]) -> dict[str, Any]:
    """The schemas that the operations refer to."""
    requests, answers = request_schemas(handlers), written_schemas()["schemas"]
    twice = requests.keys() & answers.keys()
    assert not twice, f"run `python -m deploy.response_schemas`: requests have {twice}, too"
    content = {"application/json": {"schema": {"$ref": REFERENCE.format(model="Error")}}}
    return {
        "schemas": dict(sorted({**requests, **answers, "Error": ERROR}.items())),
        "responses": {name: {**problem, "content": content} for name, problem in PROBLEMS.items()},
        "securitySchemes": SECURITY_SCHEMES,
    }


def request_schemas(handlers: Iterable[HTTPRouteHandler]) -> dict[str, Schema]:
    """The schemas of bodies and of what they and query parameters refer to."""
    described: list[Description] = [
        handler.opt["description"] for _, handler in described_routes(handlers)
    ]
    bodies = {description.body for description in described if description.body}
    forms = {model: prefix for model in bodies if (prefix := prefix_of_parts(model))}
    _, schemas = models_json_schema(
        [
            (model, "validation")
            for model in sorted(bodies - forms.keys(), key=lambda model: model.__name__)
        ],
        ref_template=REFERENCE,
    )
    found: dict[str, Schema] = dict(schemas.get("$defs", {}))
    for model, prefix in forms.items():
        found |= schemas_of_form(model, prefix)
    for model in {description.query for description in described if description.query}:
        found |= model.model_json_schema(ref_template=REFERENCE).get("$defs", {})
    return found


def prefix_of_parts(model: type[BaseModel]) -> str | None:
    """The name prefix of the schemas of a form's parts; None for another body."""
    modules = [each.__module__ for each in model.__mro__]
    found = (FORMS[form] for form in FORMS if any(each.startswith(form) for each in modules))
    return next(found, None)


def schemas_of_form(model: type[BaseModel], prefix: str) -> dict[str, Schema]:
    """The schemas of a form and of its parts."""
    schema = model.model_json_schema(ref_template=REFERENCE.format(model=f"{prefix}{{model}}"))
    parts = schema.pop("$defs", {})
    return {model.__name__: schema, **{f"{prefix}{name}": part for name, part in parts.items()}}


def operation(path: str, method: str, handler: HTTPRouteHandler) -> dict[str, Any]:
    """The description of one operation of a path."""
    described: Description = handler.opt["description"]
    group = path.removeprefix("/v1/").split("/")[0] or "server"
    suffix = re.sub(r"\W+", "_", path).strip("_")
    said = " ".join(inspect.cleandoc(handler.fn.__doc__ or "").split())
    found: dict[str, Any] = {
        "operationId": f"{handler.handler_name.rpartition('.')[2]}__{suffix}",
        "tags": [group],
        "summary": SENTENCE_END.split(said)[0],
        "description": said,
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in re.findall(r"\{(\w+)\}", path)
        ],
        "responses": responses(method, handler),
    }
    if path in {*OPEN_PATHS, OAUTH_CALLBACK}:
        found["security"] = []
    if described.query:
        found["parameters"] += query_parameters(described.query)
    if described.body:
        reference = {"$ref": REFERENCE.format(model=described.body.__name__)}
        content = {"application/json": {"schema": reference}}
        content |= {form: {"schema": {"type": "string"}} for form in described.also_takes}
        found["requestBody"] = {"required": True, "content": content}
    return found


def responses(method: str, handler: HTTPRouteHandler) -> dict[str, Any]:
    """The responses of an operation, by status."""
    described: Description = handler.opt["description"]
    success: dict[str, Any] = {"description": described.gives}
    if handler.status_code != NO_CONTENT:
        success["content"] = content_of(method, handler)
    problem = "#/components/responses/{}".format
    return {
        str(handler.status_code): success,
        "401": {"$ref": problem("Unauthorized")},
        "4XX": {"$ref": problem("Problem")},
        "503": {"$ref": problem("Unavailable")},
    }


def content_of(method: str, handler: HTTPRouteHandler) -> dict[str, Any]:
    """The answer of an operation that went well."""
    described: Description = handler.opt["description"]
    if described.streams:
        return {EVENT_STREAM: {"schema": EVENTS}}
    if OAUTH_CALLBACK in handler.paths:
        return {"text/html": {"schema": PAGE}}
    return {"application/json": {"schema": response_schema(handler, method)}}


def query_parameters(model: type[BaseModel]) -> list[dict[str, Any]]:
    """The query parameters of an operation."""
    schema = model.model_json_schema(ref_template=REFERENCE)
    return [
        {"name": name, "in": "query", "required": False, "schema": field}
        for name, field in schema["properties"].items()
    ]
