"""Clients' answers to calls that wait for them, and the tools and skills that clients bring."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pydantic_core import to_json

from libs.contracts.agent.approvals import CallAnswer
from libs.contracts.agent.runs import ClientSkill, ClientTool
from libs.contracts.letta.message_requests import (
    ApprovalCreate,
    ApprovalReturn,
    ClientSkillSchema,
    ClientToolSchema,
    LettaRequest,
    MessageCreate,
    ToolReturn,
    ToolReturnCreate,
)
from services.api.http.error_responses import Problem

# Each run that has them remembers them.
CLIENT_TOOLS_BYTES_MAX = 1 << 20
CLIENT_TOOLS_MAX = 256
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def messages_of(request: LettaRequest) -> list[MessageCreate]:
    """The client's messages to the agent, without its answers to calls."""
    return [message for message in request.all_messages if isinstance(message, MessageCreate)]


def answers_of(request: LettaRequest) -> list[CallAnswer]:
    """The answers to calls that wait, in whichever form they were sent. Raises the 422 of answers
    without any call."""
    found = [*each_answer(request)]
    if not found and len(messages_of(request)) < len(request.all_messages):
        detail = "`messages`: an approval or tool return answers at least one tool call"
        raise Problem(422, {"detail": detail})
    return found


def each_answer(request: LettaRequest) -> Iterator[CallAnswer]:
    """Every answer to a call, in the order in which they were sent."""
    for sent in request.all_messages:
        if isinstance(sent, ApprovalCreate):
            yield from map(call_answer, sent.approvals or [])
        elif isinstance(sent, ToolReturnCreate):
            yield from map(call_answer, sent.tool_returns)


def call_answer(sent: ApprovalReturn | ToolReturn) -> CallAnswer:
    """One answer to one call."""
    if isinstance(sent, ApprovalReturn):
        kind: Any = "approved" if sent.approve else "denied"
        return CallAnswer(tool_call_id=sent.tool_call_id, kind=kind, reason=sent.reason)
    return CallAnswer(
        tool_call_id=sent.tool_call_id,
        kind="returned",
        content=sent.model_dump(mode="json", exclude_none=True)["tool_return"],
        status=sent.status,
        stdout=sent.stdout,
        stderr=sent.stderr,
    )


def otid_of_answer(request: LettaRequest) -> str | None:
    """The otid that the client gave its answer, if it did."""
    answers = (answer for answer in request.all_messages if not isinstance(answer, MessageCreate))
    return next((answer.otid for answer in answers if answer.otid), None)


def client_tools_of(request: LettaRequest) -> list[ClientTool]:
    """The tools that the client carries out itself. Raises the 422 of tools that no model could be
    offered, or that are too large to be remembered."""
    sent = request.client_tools or []
    if len(sent) > CLIENT_TOOLS_MAX or size(sent) > CLIENT_TOOLS_BYTES_MAX:
        detail = (
            f"`client_tools`: at most {CLIENT_TOOLS_MAX} tools, and {CLIENT_TOOLS_BYTES_MAX} bytes"
            " as JSON: send fewer, or describe them in fewer words"
        )
        raise Problem(422, {"detail": detail})
    names: set[str] = set()
    for place, tool in enumerate(sent):
        if not TOOL_NAME.fullmatch(tool.name):
            reason = "a name is 1 to 64 letters, digits, `_` or `-`"
        elif tool.name in names:
            reason = f"another entry is named `{tool.name}`"
        else:
            names.add(tool.name)
            continue
        raise Problem(422, {"detail": f"`client_tools`, entry {place}: {reason}"})
    return [client_tool(tool) for tool in sent]


def client_tool(sent: ClientToolSchema) -> ClientTool:
    """One tool of the client."""
    parameters = sent.parameters or {}
    return ClientTool(name=sent.name, description=sent.description or "", parameters=parameters)


def client_skills_of(request: LettaRequest) -> list[ClientSkill]:
    """The skills that the client's environment has. Raises the 422 of too many."""
    sent = request.client_skills or []
    if size(sent) > CLIENT_TOOLS_BYTES_MAX:
        detail = f"`client_skills`: at most {CLIENT_TOOLS_BYTES_MAX} bytes as JSON: send fewer"
        raise Problem(422, {"detail": detail})
    return [ClientSkill.model_validate(skill.model_dump()) for skill in sent]


def size(sent: list[ClientToolSchema] | list[ClientSkillSchema]) -> int:
    """The bytes that these take as JSON."""
    return len(to_json(sent))
