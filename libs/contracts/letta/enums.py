"""The enumerations of the V1 API.

Class and member names show in validation errors (`<MessageRole.user: 'user'>`), so they are
part of the wire format.
"""

from enum import StrEnum
from typing import Literal


class AgentType(StrEnum):
    memgpt_agent = "memgpt_agent"
    memgpt_v2_agent = "memgpt_v2_agent"
    letta_v1_agent = "letta_v1_agent"
    react_agent = "react_agent"
    workflow_agent = "workflow_agent"
    split_thread_agent = "split_thread_agent"
    sleeptime_agent = "sleeptime_agent"
    voice_convo_agent = "voice_convo_agent"
    voice_sleeptime_agent = "voice_sleeptime_agent"


class MessageRole(StrEnum):
    assistant = "assistant"
    user = "user"
    tool = "tool"
    function = "function"
    system = "system"
    approval = "approval"
    summary = "summary"


class MessageCreateType(StrEnum):
    message = "message"
    approval = "approval"
    tool_return = "tool_return"


class MessageType(StrEnum):
    system_message = "system_message"
    user_message = "user_message"
    assistant_message = "assistant_message"
    reasoning_message = "reasoning_message"
    hidden_reasoning_message = "hidden_reasoning_message"
    tool_call_message = "tool_call_message"
    tool_return_message = "tool_return_message"
    approval_request_message = "approval_request_message"
    approval_response_message = "approval_response_message"
    summary_message = "summary_message"
    event_message = "event_message"


class ToolType(StrEnum):
    custom = "custom"
    letta_core = "letta_core"
    letta_memory_core = "letta_memory_core"
    letta_multi_agent_core = "letta_multi_agent_core"
    letta_sleeptime_core = "letta_sleeptime_core"
    letta_voice_sleeptime_core = "letta_voice_sleeptime_core"
    letta_builtin = "letta_builtin"
    letta_files_core = "letta_files_core"
    external_langchain = "external_langchain"
    external_composio = "external_composio"
    external_mcp = "external_mcp"


class StopReasonType(StrEnum):
    end_turn = "end_turn"
    error = "error"
    llm_api_error = "llm_api_error"
    invalid_llm_response = "invalid_llm_response"
    invalid_tool_call = "invalid_tool_call"
    max_steps = "max_steps"
    max_tokens_exceeded = "max_tokens_exceeded"
    no_tool_call = "no_tool_call"
    tool_rule = "tool_rule"
    cancelled = "cancelled"
    insufficient_credits = "insufficient_credits"
    requires_approval = "requires_approval"
    context_window_overflow_in_system_prompt = "context_window_overflow_in_system_prompt"


class RunStatus(StrEnum):
    created = "created"
    running = "running"
    completed = "completed"
    failed = "failed"
    cancelled = "cancelled"


class StepStatus(StrEnum):
    pending = "pending"
    success = "success"
    failed = "failed"
    cancelled = "cancelled"


COMPLETING = frozenset({"end_turn", "max_steps", "tool_rule", "requires_approval"})


def run_status(stop_reason: StopReasonType) -> RunStatus:
    """The status of a run that ended for this reason."""
    if stop_reason in COMPLETING:
        return RunStatus.completed
    if stop_reason == StopReasonType.cancelled:
        return RunStatus.cancelled
    return RunStatus.failed


type ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
type Verbosity = Literal["low", "medium", "high"]
type Effort = Literal["low", "medium", "high", "xhigh", "max"]
