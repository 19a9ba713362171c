"""Refuses tool lists that the OpenAI API refuses: names, types and JSON schemas."""

import marshal
from collections import OrderedDict
from typing import Any

from tests.scripted_model.refusal import Invalid, check_name, empty_array, expect, too_many

TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
TOOLS_MAX = 128
_GROUPS = ("properties", "$defs")
_UNIONS = ("anyOf", "oneOf", "allOf")
_SHAPES: dict[str, type] = {
    **dict.fromkeys(_GROUPS, dict),
    **dict.fromkeys((*_UNIONS, "enum"), list),
}
TOOL_LISTS_CACHED_MAX = 256

_valid_tool_lists: OrderedDict[bytes, None] = OrderedDict()


def check_tools_once(tools: Any) -> None:
    """Agents send the same tools with every request, so a list found valid is remembered."""
    written = marshal.dumps(tools, 2)  # version 2 writes equal values as equal bytes
    if written in _valid_tool_lists:
        return
    _check_tools(tools)
    _valid_tool_lists[written] = None
    if len(_valid_tool_lists) > TOOL_LISTS_CACHED_MAX:
        _valid_tool_lists.popitem(last=False)


def _check_tools(tools: Any) -> None:
    expect(tools, list, "tools")
    if not tools:
        raise empty_array("tools")
    if len(tools) > TOOLS_MAX:
        raise too_many("tools", TOOLS_MAX, len(tools))
    for index, tool in enumerate(tools):
        where = f"tools[{index}]"
        expect(tool, dict, where)
        if tool.get("type") != "function":
            raise Invalid(f"Invalid value: '{tool.get('type')}'.", f"{where}.type", "invalid_value")
        function = tool.get("function")
        expect(function, dict, f"{where}.function")
        check_name(function.get("name"), f"{where}.function.name")
        parameters = function.get("parameters")
        if parameters is None:
            continue
        problem = _schema_problem(parameters, function.get("strict") is True)
        if problem:
            raise Invalid(
                f"Invalid schema for function '{function['name']}': {problem}",
                f"{where}.function.parameters",
                "invalid_function_parameters",
            )


def _schema_problem(parameters: Any, strict: bool) -> str | None:
    kind = parameters.get("type") if isinstance(parameters, dict) else parameters
    if kind != "object":
        return f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'."
    return _node_problem(parameters, (), strict)


def _node_problem(node: Any, at: tuple[str, ...], strict: bool) -> str | None:
    if isinstance(node, bool):
        return None
    if not isinstance(node, dict):
        return f"In context={at}, {node!r} is not of type 'object', 'boolean'."
    kind = node.get("type")
    kinds = kind if isinstance(kind, list) else [] if kind is None else [kind]
    for each in kinds:
        if not isinstance(each, str) or each not in TYPES:
            return f"{each!r} is not valid under any of the given schemas."
    if "array" in kinds and "items" not in node:
        return f"In context={at}, array schema missing items."
    for group, wanted in _SHAPES.items():
        if not isinstance(node.get(group, wanted()), wanted):
            return f"In context={at}, {node[group]!r} is not a valid '{group}'."
    return _object_problem(node, at, strict and "object" in kinds) or _children_problem(
        node, at, strict
    )


def _object_problem(node: dict[str, Any], at: tuple[str, ...], strict: bool) -> str | None:
    properties, required = node.get("properties", {}), node.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        return f"In context={at}, {required!r} is not of type 'array' of strings."
    if strict and node.get("additionalProperties") is not False:
        return f"In context={at}, 'additionalProperties' is required to be supplied and to be false"
    if strict and set(required) != set(properties):
        return (
            f"In context={at}, 'required' is required to be supplied and to be an array "
            "including every key in properties."
        )
    return None


def _children_problem(node: dict[str, Any], at: tuple[str, ...], strict: bool) -> str | None:
    children = [
        ((*at, group, name), child)
        for group in _GROUPS
        for name, child in node.get(group, {}).items()
    ]
    children += [
        ((*at, union, str(index)), child)
        for union in _UNIONS
        for index, child in enumerate(node.get(union, ()))
    ]
    if "items" in node:
        children.append(((*at, "items"), node["items"]))
    for where, child in children:
        if problem := _node_problem(child, where, strict):
            return problem
    return None
