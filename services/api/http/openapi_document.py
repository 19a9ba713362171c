"""The OpenAPI document, made from the routes, and a page that shows it without any CDN."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import swagger_ui_bundle
from litestar import Litestar, MediaType, Response, get
from litestar.handlers import HTTPRouteHandler
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from libs.contracts.version import HEELER_VERSION
from services.api.http.openapi_operation import Description
from services.api.http.request_parsing import AnyRequest

REFERENCE = "#/components/schemas/{model}"
ASSETS = Path(swagger_ui_bundle.swagger_ui_path)
ASSET_TYPES = {".js": "text/javascript", ".css": "text/css", ".png": "image/png"}

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><title>Heeler API</title>
<link rel="stylesheet" href="openapi/swagger-ui.css">
</head>
<body>
<div id="ui"></div>
<script src="openapi/swagger-ui-bundle.js"></script>
<script>SwaggerUIBundle({url: "openapi.json", dom_id: "#ui", deepLinking: true});</script>
</body>
</html>
"""


@get("/openapi.json", opt={"hidden": True})
async def openapi_document(request: AnyRequest) -> Response[bytes]:
    """The document."""
    return Response(document_of(request.app), media_type="application/json")


@get("/openapi", media_type=MediaType.HTML, opt={"hidden": True})
async def openapi_page() -> str:
    """The page."""
    return PAGE


@get("/openapi/{asset:str}", opt={"hidden": True})
async def openapi_asset(asset: str) -> Response[bytes]:
    """A file of the page."""
    path = ASSETS / Path(asset).name
    kind = ASSET_TYPES.get(path.suffix)
    if kind is None or not path.is_file():
        return Response(b'{"detail":"Not Found"}', status_code=404, media_type="application/json")
    return Response(path.read_bytes(), media_type=kind)


@cache
def document_of(app: Litestar) -> bytes:
    """The whole document as JSON."""
    handlers = [
        (path, handler)
        for handler in app.state.handlers
        for path in sorted(handler.paths)
        if "description" in handler.opt
    ]
    bodies = {handler.opt["description"].body for _, handler in handlers} - {None}
    _, schemas = models_json_schema(
        [(model, "validation") for model in sorted(bodies, key=lambda one: one.__name__)],
        ref_template=REFERENCE,
    )
    components = dict(schemas.get("$defs", {}))
    for model in {handler.opt["description"].query for _, handler in handlers} - {None}:
        components |= model.model_json_schema(ref_template=REFERENCE).get("$defs", {})
    paths: dict[str, dict[str, Any]] = {}
    for path, handler in handlers:
        clean = re.sub(r"\{(\w+):\w+\}", r"{\1}", path)
        for method in handler.http_methods:
            paths.setdefault(clean, {})[method.lower()] = operation(clean, handler)
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "Heeler",
            "version": HEELER_VERSION,
            "description": "Stateful agents: the Letta V1 REST API, kept alive.",
        },
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": dict(sorted(components.items()))},
    }
    return json.dumps(document).encode()


def operation(path: str, handler: HTTPRouteHandler) -> dict[str, Any]:
    """One operation."""
    described: Description = handler.opt["description"]
    group = path.removeprefix("/v1/").split("/")[0] or "server"
    suffix = re.sub(r"\W+", "_", path).strip("_")
    found: dict[str, Any] = {
        "operationId": f"{handler.handler_name.rpartition('.')[2]}__{suffix}",
        "tags": [group],
        "summary": (handler.fn.__doc__ or "").split("\n")[0],
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in re.findall(r"\{(\w+)\}", path)
        ],
        "responses": {
            "200": {
                "description": described.gives,
                "content": {"text/event-stream" if described.streams else "application/json": {}},
            },
            "4XX": {"description": "What is wrong with the request, and how to mend it"},
            "503": {"description": "Try again: the database or the bus is away"},
        },
    }
    if described.query:
        found["parameters"] += query_parameters(described.query)
    if described.body:
        reference = {"$ref": REFERENCE.format(model=described.body.__name__)}
        found["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": reference}},
        }
    return found


def query_parameters(model: type[BaseModel]) -> list[dict[str, Any]]:
    """The query parameters of an operation."""
    schema = model.model_json_schema(ref_template=REFERENCE)
    return [
        {"name": name, "in": "query", "required": False, "schema": field}
        for name, field in schema["properties"].items()
    ]
