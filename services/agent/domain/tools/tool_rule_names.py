"""Rules about tools by the names that these have now: an agent's rules know a tool by the name
under which the agent got it, and a client may rename it later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from libs.contracts.bus_messages import Json, JsonObject
from libs.contracts.tools.base_tools.catalogue import SERVER_TOOLS


def with_current_names(rules: Iterable[JsonObject], now: Mapping[str, str]) -> list[JsonObject]:
    """The rules with the names that tools have `now`, by those that they had."""
    return [with_current_name(rule, now) for rule in rules] if now else [*rules]


def with_current_name(rule: JsonObject, now: Mapping[str, str]) -> JsonObject:
    """One rule, with all tools that it names."""
    changed = dict(rule)
    for field in ("tool_name", "default_child"):
        if field in rule:
            changed[field] = named(rule[field], now)
    children, nodes = rule.get("children"), rule.get("child_arg_nodes")
    if isinstance(children, list):
        changed["children"] = [named(child, now) for child in children]
    if isinstance(nodes, list):
        changed["child_arg_nodes"] = [
            {**node, "name": named(node.get("name"), now)} if isinstance(node, dict) else node
            for node in nodes
        ]
    outputs = rule.get("child_output_mapping")
    if isinstance(outputs, dict):
        changed["child_output_mapping"] = {
            output: named(child, now) for output, child in outputs.items()
        }
    return changed


def name_clients_tools(rules: Iterable[JsonObject]) -> bool:
    """Whether a rule names a tool that does not come with the server, which may be renamed."""
    return any(not names_in(rule) <= SERVER_TOOLS.keys() for rule in rules)


def names_in(rule: JsonObject) -> set[str]:
    """The tools that a rule names."""
    children, outputs = rule.get("children"), rule.get("child_output_mapping")
    named = [rule.get("tool_name"), rule.get("default_child")]
    named += children if isinstance(children, list) else []
    named += outputs.values() if isinstance(outputs, dict) else []
    return {name for name in named if isinstance(name, str)}


def named(name: Json, now: Mapping[str, str]) -> Json:
    """What a tool is called now."""
    return now.get(name, name) if isinstance(name, str) else name
