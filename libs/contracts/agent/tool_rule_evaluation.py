"""Evaluate an agent's tool rules at one point of a run: which tools may, and which must, be called.

The rules are those that the agent had when the run was accepted. They depend on the names of the
calls that were carried out since, the newest last, without those that a rule refused. The agent
service applies them to models' calls, the tools service to programs that call tools.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

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
    """The rules of a run, and the calls that it has made. `returned` is the result of the last
    call; only a conditional rule reads it."""

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

    def allowed_tools(self, tools: Iterable[str]) -> set[str]:
        """Those of these tools that may be called next: first those that have to come first, later
        those that every rule allows. Where the rules leave none, all of them: a run must not get
        stuck."""
        every = set(tools)
        return self.tools_left(every) or every

    def tools_left(self, every: set[str]) -> set[str]:
        """Like `allowed_tools`, but empty where the rules leave none: a program can go on without
        a call."""
        first = {rule.tool_name for rule in self.of(InitToolRule)} & every
        if first and not self.called:
            return first
        left = every
        for rule in self.rules:
            left = left & self.tools_left_by(rule, every)
        return left

    def tools_left_by(self, rule: ToolRule, every: set[str]) -> set[str]:
        """The tools that one rule leaves to the next call."""
        match rule:
            case ChildToolRule() if rule.tool_name == self.last:
                return set(rule.children)
            case ParentToolRule():
                children = set(rule.children)
                return children if rule.tool_name == self.last else every - children
            case ConditionalToolRule() if rule.tool_name == self.last:
                return self.tools_chosen_by(rule, every)
            case MaxCountPerStepToolRule():
                spent = self.called.count(rule.tool_name) >= rule.max_count_limit
                return every - {rule.tool_name} if spent else every
            case _:
                return every

    def tools_chosen_by(self, rule: ConditionalToolRule, every: set[str]) -> set[str]:
        """The tools that a conditional rule allows after the result of the last call."""
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
        return any(
            isinstance(rule, deciding) and rule.tool_name == self.last for rule in self.rules
        )

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
        return any(isinstance(rule, going) and rule.tool_name == tool for rule in self.rules)

    def still_required(self, tools: Iterable[str]) -> list[str]:
        """Which of these tools have to be called before the run may end, and were not."""
        required = {rule.tool_name for rule in self.of(RequiredBeforeExitToolRule)}
        return sorted(required & set(tools) - set(self.called))

    def missing_tools(self, tools: Container[str]) -> list[str]:
        """The tools that have to be called before the run may end, and are not among these."""
        required = {rule.tool_name for rule in self.of(RequiredBeforeExitToolRule)}
        return sorted(name for name in required if name not in tools)

    def prefilled_arguments(self, tools: Iterable[str]) -> dict[str, JsonObject]:
        """The arguments that rules give, by tool, to those that may be called next."""
        offered, given = set(tools), dict[str, JsonObject]()
        for rule in self.rules:
            now = not self.called if isinstance(rule, InitToolRule) else rule.tool_name == self.last
            for tool, args in given_arguments(rule) if now else []:
                if tool in offered:
                    given[tool] = {**given.get(tool, {}), **args}
        return given


NO_RULES = ToolRules(())


def given_arguments(rule: ToolRule) -> list[tuple[str, JsonObject]]:
    """The tools that a rule gives arguments to, with these."""
    if isinstance(rule, InitToolRule) and rule.args:
        return [(rule.tool_name, {**rule.args})]
    if isinstance(rule, ChildToolRule):
        return [(node.name, {**node.args}) for node in rule.child_arg_nodes or [] if node.args]
    return []


def list_names(names: Iterable[str]) -> str:
    """The names of tools as one text for a model."""
    return ", ".join(f"`{name}`" for name in names)


def refusal_of(tool: str, offered: Iterable[str]) -> str:
    """The error that a model gets for a call that the rules do not allow."""
    may = list_names(sorted(offered)) or "nothing"
    return (
        f"[ToolConstraintError] The rules do not allow `{tool}` now, so it was not called. "
        f"You may call: {may}."
    )
