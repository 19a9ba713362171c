"""What an agent's tool rules say at one point of a run: which tools may be called, and must be.

The rules are those that the agent had when the run was accepted. They look at the names of the
calls that were carried out since, the newest last; a call that a rule refused is none of them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

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

RULES: TypeAdapter[list[ToolRule]] = TypeAdapter(list[ToolRule])


@dataclass(frozen=True, slots=True)
class ToolRules:
    """The rules of a run, and the calls that it has made. `returned` is what the last one gave
    back, where a conditional rule wants to know."""

    rules: Sequence[ToolRule]
    called: Sequence[str] = ()
    returned: str = ""

    @property
    def last(self) -> str:
        """The tool that was called last; empty before the first call."""
        return self.called[-1] if self.called else ""

    def of[R](self, kind: type[R]) -> list[R]:
        """The rules of one kind."""
        return [rule for rule in self.rules if isinstance(rule, kind)]

    def allowed(self, tools: Iterable[str]) -> set[str]:
        """Which of these tools may be called next: at the beginning those that have to come first,
        later those that every rule allows. Where rules leave nothing, all may be called: a run
        must not be stuck."""
        every = set(tools)
        first = {rule.tool_name for rule in self.of(InitToolRule)} & every
        if first and not self.called:
            return first
        left = every
        for rule in self.rules:
            left = left & self.left_by(rule, every)
        return left or every

    def left_by(self, rule: ToolRule, every: set[str]) -> set[str]:
        """The tools that one rule leaves to the next call."""
        match rule:
            case ChildToolRule() if rule.tool_name == self.last:
                return set(rule.children)
            case ParentToolRule():
                children = set(rule.children)
                return children if rule.tool_name == self.last else every - children
            case ConditionalToolRule() if rule.tool_name == self.last:
                return self.chosen_by(rule, every)
            case MaxCountPerStepToolRule():
                spent = self.called.count(rule.tool_name) >= rule.max_count_limit
                return every - {rule.tool_name} if spent else every
            case _:
                return every

    def chosen_by(self, rule: ConditionalToolRule, every: set[str]) -> set[str]:
        """The tools that follow from what the last call gave back."""
        child = rule.child_output_mapping.get(self.returned)
        if child is None and not rule.require_output_mapping:
            child = rule.default_child
        if child is not None:
            return {child}
        return set() if rule.require_output_mapping else every

    @property
    def must_call(self) -> bool:
        """Whether the next step has to be a call: the first, where some tool has to come first, and
        the one after a tool that says what follows it."""
        if not self.called:
            return bool(self.of(InitToolRule))
        deciding = (ChildToolRule, ConditionalToolRule, ParentToolRule)
        return any(isinstance(one, deciding) and one.tool_name == self.last for one in self.rules)

    @property
    def one_at_a_time(self) -> bool:
        """Whether a step may make one call only, because what may follow depends on it."""
        return any(not isinstance(rule, RequiresApprovalToolRule) for rule in self.rules)

    def ends(self, tool: str) -> bool:
        """Whether a call of this tool ends the run."""
        return any(rule.tool_name == tool for rule in self.of(TerminalToolRule))

    def goes_on_after(self, tool: str) -> bool:
        """Whether the run goes on after a call of this tool, whatever the model asked for."""
        going = (
            ContinueToolRule, ChildToolRule, ConditionalToolRule, MaxCountPerStepToolRule
        )  # fmt: skip
        return any(isinstance(one, going) and one.tool_name == tool for one in self.rules)

    def still_required(self, tools: Iterable[str]) -> list[str]:
        """Which of these tools have to be called before the run may end, and were not."""
        required = {rule.tool_name for rule in self.of(RequiredBeforeExitToolRule)}
        return sorted(required & set(tools) - set(self.called))

    def gone(self, tools: Container[str]) -> list[str]:
        """The tools that have to be called before the run may end, and are not among these."""
        required = {rule.tool_name for rule in self.of(RequiredBeforeExitToolRule)}
        return sorted(name for name in required if name not in tools)

    def prefilled(self, tools: Iterable[str]) -> dict[str, JsonObject]:
        """The arguments that rules give, by tool, to those that may be called next."""
        offered, given = set(tools), dict[str, JsonObject]()
        for rule in self.rules:
            now = not self.called if isinstance(rule, InitToolRule) else rule.tool_name == self.last
            for tool, args in given_arguments(rule) if now else []:
                if tool in offered:
                    given[tool] = {**given.get(tool, {}), **args}
        return given


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


def given_arguments(rule: ToolRule) -> list[tuple[str, JsonObject]]:
    """The tools that a rule gives arguments to, with these."""
    if isinstance(rule, InitToolRule) and rule.args:
        return [(rule.tool_name, {**rule.args})]
    if isinstance(rule, ChildToolRule):
        return [(node.name, {**node.args}) for node in rule.child_arg_nodes or [] if node.args]
    return []


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


def listed(names: Iterable[str]) -> str:
    """Names of tools as a model reads them."""
    return ", ".join(f"`{name}`" for name in names)


def refusal_of(tool: str, offered: Iterable[str]) -> str:
    """What a model is told of a call that the rules do not allow."""
    return (
        f"[ToolConstraintError] The rules do not allow `{tool}` now, so it was not called. "
        f"You may call: {listed(sorted(offered))}."
    )


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
