"""An agent's tool rules: those that are in force, and how models read them. What they say at one
point of a run is in `libs/contracts/agent/tool_rule_evaluation`."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

from libs.contracts.agent.tool_rule_evaluation import RULES, listed
from libs.contracts.bus_messages import JsonObject
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


def decides(rules: Iterable[ToolRule], tool: str) -> bool:
    """Whether what may be called next depends on what this tool gives back."""
    return any(isinstance(one, ConditionalToolRule) and one.tool_name == tool for one in rules)


def rules_in_force(rules: Iterable[JsonObject], tools: Iterable[str]) -> list[ToolRule]:
    """The rules about tools that an agent has."""
    has = set(tools)
    return [rule for rule in RULES.validate_python([*rules]) if rule.tool_name in has]


def without_required(rules: list[ToolRule], gone: Container[str]) -> list[ToolRule]:
    """The rules without those that require tools which are gone."""
    return [
        one
        for one in rules
        if not (isinstance(one, RequiredBeforeExitToolRule) and one.tool_name in gone)
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
            return f"After `{name}` call one of: {listed(rule.children)}."
        case ParentToolRule():
            return f"Only right after `{name}` may you call: {listed(rule.children)}."
        case ConditionalToolRule():
            return f"What you may call after `{name}` depends on what it returns."
        case MaxCountPerStepToolRule():
            return f"Call `{name}` at most {rule.max_count_limit} times in a turn."
        case RequiredBeforeExitToolRule():
            return f"Call `{name}` before your turn ends."
        case RequiresApprovalToolRule():
            return ""


def unfit_arguments(schema: Mapping[str, Any], args: JsonObject) -> str:
    """Why arguments that a rule gives do not fit the schema of its tool; empty if they do."""
    import jsonschema  # slow to import, and few rules give arguments

    properties = schema.get("parameters", {}).get("properties", {})
    for name, value in args.items():
        if name not in properties:
            return f"the tool has no argument `{name}`"
        try:
            jsonschema.validate(value, properties[name])
        except jsonschema.ValidationError as unfit:
            return f"`{name}`: {unfit.message}"
    return ""
