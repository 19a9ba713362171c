"""Writes what V1's answers look like, as its SDK has it, beside the api's OpenAPI document:
`python -m deploy.response_schemas`. The SDK is there with the tools for tests alone."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

from letta_client import resources
from litestar.handlers import HTTPRouteHandler
from pydantic import TypeAdapter

from services.api.app import HANDLERS
from services.api.openapi.document import request_schemas
from services.api.openapi.operation import documented_path
from services.api.openapi.response_schemas import FILE, REFERENCE

ASKS = {"_get", "_post", "_put", "_patch", "_delete", "_get_api_list"}
PARAMETER = re.compile(r"\{\w+\}")
IN_MODULE = "letta_client__types__"  # of a name that several modules of the SDK have


def sdk_types() -> dict[str, Any]:
    """The type of the SDK for the answer of each operation that it knows; paths without the names
    of their parameters."""
    found = {}
    for info in walk_packages(resources.__path__, f"{resources.__name__}."):
        module = import_module(info.name)
        assert module.__file__
        for call in calls(ast.parse(Path(module.__file__).read_text())):
            found[operation_of(call)] = answer_of(call, module)
    return found


def calls(tree: ast.Module) -> Iterator[ast.Call]:
    """The requests that the synchronous resources of a module make."""
    for resource in tree.body:
        if isinstance(resource, ast.ClassDef) and not resource.name.startswith("Async"):
            for node in ast.walk(resource):
                asks = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
                if asks and node.func.attr in ASKS:
                    yield node


def operation_of(call: ast.Call) -> str:
    """The method and the path that are asked."""
    assert isinstance(call.func, ast.Attribute)
    path = call.args[0].args[0] if isinstance(call.args[0], ast.Call) else call.args[0]
    method = "GET" if call.func.attr == "_get_api_list" else call.func.attr[1:].upper()
    return nameless(f"{method} {ast.literal_eval(path)}")


def nameless(operation: str) -> str:
    """An operation without the names of its parameters."""
    return PARAMETER.sub("{}", operation).rstrip("/")


def answer_of(call: ast.Call, module: ModuleType) -> Any:
    """The type of what is answered: of a list without what fetches its pages."""
    named = {word.arg: ast.unparse(word.value) for word in call.keywords}
    page = named.get("page", "")
    if "page" in named:
        wanted = page if page.startswith("SyncArrayPage") else named["model"]
    else:
        wanted = named["cast_to"]
    return eval(wanted.replace("SyncArrayPage", "list"), dict(vars(module)) | {"list": list})


def adapters(handlers: Iterable[HTTPRouteHandler]) -> Iterator[tuple[str, TypeAdapter[Any]]]:
    """Each operation of ours whose answer the SDK has a type for; `object` is none."""
    types = sdk_types()
    for handler in handlers:
        for path in sorted(handler.paths):
            for method in sorted(handler.http_methods):
                operation = f"{method} {documented_path(path)}"
                found = types.get(nameless(operation), object)
                if "description" in handler.opt and found is not object:
                    yield operation, TypeAdapter(found)


def document() -> dict[str, Any]:
    """The schemas of answers by operation, and what they refer to."""
    operations, definitions = TypeAdapter.json_schemas(
        [(operation, "validation", adapter) for operation, adapter in adapters(HANDLERS)],
        ref_template=REFERENCE,
    )
    taken = request_schemas(HANDLERS)
    text = json.dumps(
        {
            "operations": {operation: schema for (operation, _), schema in operations.items()},
            "schemas": definitions.get("$defs", {}),
        }
    )
    for name in definitions.get("$defs", {}):
        text = text.replace(f'/{name}"', f'/{document_name(name, taken)}"')
    found: dict[str, Any] = without_titles(json.loads(text))
    found["schemas"] = {
        document_name(name, taken): schema for name, schema in found["schemas"].items()
    }
    return found


def document_name(name: str, taken: Iterable[str]) -> str:
    """The name of a schema in the document, where requests have names, too."""
    if name.startswith(IN_MODULE):
        words = name.removeprefix(IN_MODULE).split("__")
        return "".join("".join(map(str.title, word.split("_"))) for word in words[:-1]) + words[-1]
    return f"{name}Output" if name in taken else name


def without_titles(node: Any) -> Any:
    """The same without titles, which repeat the names of fields."""
    if isinstance(node, dict):
        return {
            key: without_titles(value)
            for key, value in node.items()
            if key != "title" or not isinstance(value, str)
        }
    return [without_titles(value) for value in node] if isinstance(node, list) else node


def page_text() -> str:
    """The file as it is committed."""
    return json.dumps(document(), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    FILE.write_text(page_text())
