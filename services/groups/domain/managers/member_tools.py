"""The tools with which a member hands over or writes the shared state, and a manager asks members.

They are tools of the client of a member's run, and the groups service is that client: a call ends
the run, and the answer comes with the member's next run. So all that a call leads to is recorded
member run by member run, as everything else in a group is.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from libs.contracts.agent.runs import ClientTool
from libs.contracts.bus_messages import JsonObject
from libs.contracts.groups.group_runs import ToolCallMade
from libs.contracts.groups.groups import StateMode
from services.groups.domain.managers.decisions import Participant

HAND_OVER, ASK_MEMBERS = "hand_over", "send_message_to_group_members"
WRITE_STATE = "update_shared_state"
GROUP_TOOLS = (HAND_OVER, ASK_MEMBERS, WRITE_STATE)
# How often a member may write the shared state in one turn.
STATE_WRITES_MAX = 8


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


class WriteState(BaseModel):
    """The arguments of a call that writes the shared state."""

    model_config = ConfigDict(extra="ignore")

    state: dict[str, JsonValue]


def write_state_tool(mode: StateMode) -> ClientTool:
    """The tool with which a member writes the shared state."""
    how = (
        "The keys that change, with their new values: what you leave out stays, null removes a key."
        if mode == "merge"
        else "The whole new document: what you leave out is gone."
    )
    return ClientTool(
        name=WRITE_STATE,
        description="Write the shared state of your group, a JSON document that all members see.",
        parameters={
            "type": "object",
            "properties": {"state": {"type": "object", "description": how}},
            "required": ["state"],
        },
    )


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


def read_state_write(call: ToolCallMade) -> WriteState | None:
    """The arguments of a call that writes the shared state; None for what is malformed."""
    arguments = call.arguments.replace("\\u0000", "")  # no row can hold it
    try:
        return WriteState.model_validate_json(arguments)
    except ValidationError:
        return None


def words_of(call: ToolCallMade) -> str:
    """What the others hear of a call: the message in it."""
    wanted = read_hand_over(call) or read_ask(call)
    return wanted.message if wanted else ""
