"""The tools with which a member hands over, and a manager asks members.

They are tools of the client of a member's run, and the groups service is that client: a call ends
the run, and the answer comes with the member's next run. So all that a call leads to is recorded
hop by hop, as everything else in a group is.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError

from libs.contracts.agent.runs import ClientTool
from libs.contracts.bus_messages import JsonObject
from libs.contracts.groups.group_runs import ToolCallMade
from services.groups.domain.managers.decisions import Participant

HAND_OVER, ASK_MEMBERS = "hand_over", "send_message_to_group_members"
GROUP_TOOLS = (HAND_OVER, ASK_MEMBERS)
NAMED_MEMBERS_MAX = 100


class HandOver(BaseModel):
    """Arguments of `hand_over`."""

    model_config = ConfigDict(extra="ignore")

    agent_name: str
    message: str = ""


class AskMembers(BaseModel):
    """Arguments of `send_message_to_group_members`; without names all members are meant."""

    model_config = ConfigDict(extra="ignore")

    message: str
    agent_names: list[str] = []


def hand_over_tool(others: list[Participant]) -> ClientTool:
    """The tool with which a member has another one go on."""
    names: JsonObject = {"type": "string", "enum": [member.name for member in others]}
    return ClientTool(
        name=HAND_OVER,
        description="Have another member of the group go on in your place, and say what it should"
        " know. It sees the conversation of the group. End your answer with this call.",
        parameters={
            "type": "object",
            "properties": {
                "agent_name": {**names, "description": "The name of the member."},
                "message": {"type": "string", "description": "What you say to it."},
            },
            "required": ["agent_name", "message"],
        },
    )


def ask_members_tool(members: list[Participant]) -> ClientTool:
    """The tool with which a manager asks the members of its group."""
    names: JsonObject = {"type": "string", "enum": [member.name for member in members]}
    return ClientTool(
        name=ASK_MEMBERS,
        description="Ask members of your group, all at the same time, and get their answers.",
        parameters={
            "type": "object",
            "properties": {
                "message": {"type": "string", "description": "What you say to them."},
                "agent_names": {
                    "type": "array",
                    "items": names,
                    "description": "Whom you ask; all members without it.",
                },
            },
            "required": ["message"],
        },
    )


def read_hand_over(call: ToolCallMade) -> HandOver | None:
    """The arguments of a call that hands over; None for other calls, and for what is malformed."""
    try:
        return HandOver.model_validate_json(call.arguments) if call.name == HAND_OVER else None
    except ValidationError:
        return None


def read_ask(call: ToolCallMade) -> AskMembers | None:
    """The arguments of a call that asks members; None for other calls, and for what is
    malformed."""
    try:
        return AskMembers.model_validate_json(call.arguments) if call.name == ASK_MEMBERS else None
    except ValidationError:
        return None


def words_of(call: ToolCallMade) -> str:
    """What the others hear of a call: the message in it."""
    wanted = read_hand_over(call) or read_ask(call)
    return wanted.message if wanted else ""
