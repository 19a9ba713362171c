"""The rules that say which tool may, must or must not be called next."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, JsonValue

from libs.contracts.letta.request_size_limits import Integer


class ToolCallNode(BaseModel):
    name: str
    args: dict[str, JsonValue] | None = None


class ChildToolRule(BaseModel):
    tool_name: str
    type: Literal["constrain_child_tools"] = "constrain_child_tools"
    prompt_template: str | None = None
    children: list[str]
    child_arg_nodes: list[ToolCallNode] | None = None


class ParentToolRule(BaseModel):
    tool_name: str
    type: Literal["parent_last_tool"] = "parent_last_tool"
    prompt_template: str | None = None
    children: list[str]


class ConditionalToolRule(BaseModel):
    tool_name: str
    type: Literal["conditional"] = "conditional"
    prompt_template: str | None = None
    default_child: str | None = None
    child_output_mapping: dict[str, str]
    require_output_mapping: bool = False


class InitToolRule(BaseModel):
    tool_name: str
    type: Literal["run_first"] = "run_first"
    prompt_template: str | None = None
    args: dict[str, JsonValue] | None = None


class TerminalToolRule(BaseModel):
    tool_name: str
    type: Literal["exit_loop"] = "exit_loop"
    prompt_template: str | None = None


class ContinueToolRule(BaseModel):
    tool_name: str
    type: Literal["continue_loop"] = "continue_loop"
    prompt_template: str | None = None


class RequiredBeforeExitToolRule(BaseModel):
    tool_name: str
    type: Literal["required_before_exit"] = "required_before_exit"
    prompt_template: str | None = None


class MaxCountPerStepToolRule(BaseModel):
    tool_name: str
    type: Literal["max_count_per_step"] = "max_count_per_step"
    prompt_template: str | None = None
    max_count_limit: Integer


class RequiresApprovalToolRule(BaseModel):
    tool_name: str
    type: Literal["requires_approval"] = "requires_approval"
    prompt_template: str | None = None


type ToolRule = Annotated[
    ChildToolRule
    | InitToolRule
    | TerminalToolRule
    | ConditionalToolRule
    | ContinueToolRule
    | RequiredBeforeExitToolRule
    | MaxCountPerStepToolRule
    | ParentToolRule
    | RequiresApprovalToolRule,
    Field(discriminator="type"),
]
