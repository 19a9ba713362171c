"""An agent's tool rules: those that are in force, by the names that tools have now, and how models
read them. What they say at one point of a run is in `libs/contracts/agent/tool_rule_evaluation`."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from libs.contracts.agent.tool_rule_evaluation import RULES, list_names
from libs.contracts.bus_messages import Json, JsonObject
from libs.contracts.letta.tool_rules import (
    ChildToolRule,
    ConditionalToolRule,
    ContinueToolRule,
    InitToolRule,
    MaxCountPerStepToolRule,
    ParentToolRule,
    RequiredBeforeExitToolRule,
    RequiresApprovalToolRule,
    TerminalToolRule,
    ToolRule,
)
from libs.contracts.tools.base_tools.catalogue import SERVER_TOOLS
from libs.contracts.tools.base_tools.definition import BaseTool

if TYPE_CHECKING:
    from jsonschema.protocols import Validator


def decides(rules: Iterable[ToolRule], tool: str) -> bool:
    """Whether what may be called next depends on what this tool gives back."""
    return any(isinstance(rule, ConditionalToolRule) and rule.tool_name == tool for rule in rules)


def rules_in_force(rules: Iterable[JsonObject], tools: Iterable[str]) -> list[ToolRule]:
    """The rules about tools that an agent has."""
    has = set(tools)
    return [rule for rule in RULES.validate_python([*rules]) if rule.tool_name in has]


def without_required(rules: list[ToolRule], gone: Container[str]) -> list[ToolRule]:
    """The rules without those that require tools which are gone."""
    return [
        rule
        for rule in rules
        if not (isinstance(rule, RequiredBeforeExitToolRule) and rule.tool_name in gone)
    ]


def rule_lines(rules: Iterable[ToolRule]) -> list[str]:
    """The rules as a model reads them, one line each."""
    return [line for line in map(rule_line, rules) if line]


def rule_line(rule: ToolRule) -> str:
    """One rule as a model reads it; empty for one that it need not know."""
    name = rule.tool_name
    match rule:
        case InitToolRule():
            return f"Your first call must be `{name}`, or another tool of which this is said."
        case TerminalToolRule():
            return f"A call of `{name}` ends your turn."
        case ContinueToolRule():
            return f"After a call of `{name}` your turn goes on."
        case ChildToolRule():
            return f"After `{name}` call one of: {list_names(rule.children)}."
        case ParentToolRule():
            return f"Only right after `{name}` may you call: {list_names(rule.children)}."
        case ConditionalToolRule():
            return f"What you may call after `{name}` depends on what it returns."
        case MaxCountPerStepToolRule():
            return f"Call `{name}` at most {rule.max_count_limit} times in a turn."
        case RequiredBeforeExitToolRule():
            return f"Call `{name}` before your turn ends."
        case RequiresApprovalToolRule():
            return ""


def unfit_arguments(tool: BaseTool, args: JsonObject) -> str:
    """Why arguments that a rule gives do not fit a tool of the server; empty if they do."""
    checks = argument_checks(tool.name)
    for name, value in args.items():
        if name not in checks:
            return f"the tool has no argument `{name}`"
        unfit = next(checks[name].iter_errors(value), None)
        if unfit is not None:
            return f"`{name}`: {unfit.message}"
    return ""


@cache
def argument_checks(tool: str) -> dict[str, Validator]:
    """The validators of arguments, by the names of the server's tools."""
    from jsonschema.validators import validator_for  # slow to import, and few rules give arguments

    parameters: Any = SERVER_TOOLS[tool].json_schema["parameters"]
    return {name: validator_for(said)(said) for name, said in parameters["properties"].items()}


def with_current_names(rules: Iterable[JsonObject], now: Mapping[str, str]) -> list[JsonObject]:
    """The rules with the names that tools have `now`, by those that they had."""
    return [with_current_name(rule, now) for rule in rules] if now else [*rules]


def with_current_name(rule: JsonObject, now: Mapping[str, str]) -> JsonObject:
    """One rule, with all tools that it names."""
    changed = dict(rule)
    for field in ("tool_name", "default_child"):
        if field in rule:
            changed[field] = current_name(rule[field], now)
    children, nodes = rule.get("children"), rule.get("child_arg_nodes")
    if isinstance(children, list):
        changed["children"] = [current_name(child, now) for child in children]
    if isinstance(nodes, list):
        changed["child_arg_nodes"] = [
            {**node, "name": current_name(node.get("name"), now)}
            if isinstance(node, dict)
            else node
            for node in nodes
        ]
    outputs = rule.get("child_output_mapping")
    if isinstance(outputs, dict):
        changed["child_output_mapping"] = {
            output: current_name(child, now) for output, child in outputs.items()
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


def current_name(name: Json, now: Mapping[str, str]) -> Json:
    """The present name of a tool that may have been renamed."""
    return now.get(name, name) if isinstance(name, str) else name
