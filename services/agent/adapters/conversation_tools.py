"""The agent service's own tools: words to the user and to other agents, and searches in the
history."""

from __future__ import annotations

import json
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel, BeforeValidator, Field

from libs.bus.ports import Clock
from services.agent.adapters.capability_tools import CapabilityTools
from services.agent.adapters.conversation_search import (
    FoundMessage,
    HybridConversationSearch,
    Search,
)
from services.agent.adapters.lenient_date_parsing import FORMS, Reader, Span
from services.agent.adapters.multi_agent_tools import MultiAgentTools
from services.agent.adapters.tool_owner_port import Calling, Runner, error
from services.agent.domain.runs.heartbeat_pauses import pause_minutes
from services.agent.domain.runs.step_results import ToolResult
from services.agent.domain.tools.call_arguments import arguments_of
from services.agent.domain.tools.custom_tools import HeldTool

SEARCH_RESULTS_DEFAULT = 5
SEARCH_RESULTS_MAX = 100
QUERY_CHARS_MAX = 2_000


def one_or_many(value: object) -> object:
    """Models give one role where a list is asked for."""
    return [value] if isinstance(value, str) else value


def number_as_text(value: object) -> object:
    """Models give Unix time as a number."""
    return str(value) if type(value) in (int, float) else value


When = Annotated[str, BeforeValidator(number_as_text)]
PageNumber = Annotated[int, Field(ge=0)]
Role = Literal["user", "assistant", "tool", "system"]


class ConversationSearch(BaseModel):
    """Arguments of `conversation_search`."""

    query: Annotated[str | None, Field(max_length=QUERY_CHARS_MAX)] = None
    roles: Annotated[list[Role] | None, BeforeValidator(one_or_many)] = None
    limit: int | None = None
    start_date: When | None = None
    end_date: When | None = None
    page: PageNumber = 0


class ConversationSearchDate(BaseModel):
    """Arguments of `conversation_search_date`."""

    start_date: When
    end_date: When
    page: PageNumber = 0


class SendMessage(BaseModel):
    """Arguments of `send_message`."""

    message: str


class ConversationTools:
    """Keeps the contract of `ToolOwner`."""

    def __init__(
        self, messages: HybridConversationSearch, others: MultiAgentTools, clock: Clock
    ) -> None:
        self.messages = messages
        self.clock = clock
        self.runners: dict[str, Runner] = {
            "conversation_search": self.conversation_search,
            "conversation_search_date": self.conversation_search_date,
            "pause_heartbeats": self.pause_heartbeats,
            "send_message": self.send_message,
            **others.runners,
            **CapabilityTools(others).runners,
        }

    def runner(self, tool: HeldTool) -> Runner | None:
        """The function that carries out calls of a tool; None if there is none yet."""
        return self.runners.get(tool.name)

    async def send_message(self, calling: Calling) -> ToolResult:
        """Say something to the user: what the call says is a part of the run's answer already."""
        SendMessage.model_validate_json(calling.call.arguments)
        return ToolResult("success", "The message was sent.")

    async def pause_heartbeats(self, calling: Calling) -> ToolResult:
        """Do nothing for a while: the run ends, and another follows when the pause is over."""
        asked = (arguments_of(calling.call) or {}).get("minutes")
        minutes = pause_minutes(asked)
        text = f"You pause for {minutes} min, then your next turn begins by itself."
        return ToolResult("success", text, pause_minutes=minutes)

    async def conversation_search(self, calling: Calling) -> ToolResult:
        """Find messages of the agent's history by text, meaning, role and time."""
        wanted = ConversationSearch.model_validate_json(calling.call.arguments)
        roles: list[str] = [
            role for role in wanted.roles or ["user", "assistant"] if role != "tool"
        ]
        limit = min(max(wanted.limit or SEARCH_RESULTS_DEFAULT, 1), SEARCH_RESULTS_MAX)
        dates = self.dates(calling).span(wanted.start_date, wanted.end_date)
        return await self.search_page(
            calling, wanted.query or None, roles, dates, limit, wanted.page
        )

    async def conversation_search_date(self, calling: Calling) -> ToolResult:
        """List the messages between two dates, a page at a time, the newest first."""
        wanted = ConversationSearchDate.model_validate_json(calling.call.arguments)
        dates = self.dates(calling).span(wanted.start_date, wanted.end_date)
        if not isinstance(dates, str) and None in dates:
            empty = "start_date" if dates[0] is None else "end_date"
            return error(f"`{empty}` is empty: name both ends of the time. Use {FORMS}.")
        roles = ["user", "assistant"]
        return await self.search_page(
            calling, None, roles, dates, SEARCH_RESULTS_DEFAULT, wanted.page
        )

    def dates(self, calling: Calling) -> Reader:
        """The parser of times in the agent's time zone."""
        return Reader(self.clock.now(), ZoneInfo(calling.design.config.timezone))

    async def search_page(
        self,
        calling: Calling,
        text: str | None,
        roles: list[str],
        dates: Span | str,
        limit: int,
        page: int,
    ) -> ToolResult:
        """One page of what a search finds, the best first; without a text the newest first."""
        if isinstance(dates, str):
            return error(dates)
        end = (page + 1) * limit
        if end > SEARCH_RESULTS_MAX:
            last = SEARCH_RESULTS_MAX // limit - 1
            return error(f"`page` is at most {last}: name dates that are nearer to each other.")
        since, until = dates
        wanted = Search(
            org=calling.context.org,
            agent_id=calling.design.config.id,
            text=text,
            roles=roles,
            since=since,
            until=until,
            limit=end,
        )
        found = await self.messages.search(calling, wanted)
        return search_result(found[end - limit :], ZoneInfo(calling.design.config.timezone))


def search_result(found: list[FoundMessage], zone: ZoneInfo) -> ToolResult:
    """The result of a search: the messages that were found, as text for the model."""
    if not found:
        return ToolResult("success", "No results found.")
    listed = [
        {
            "timestamp": message.created_at.astimezone(zone).isoformat(timespec="seconds"),
            "role": message.role,
            "content": message.text,
        }
        for message in found
    ]
    results = json.dumps(listed, ensure_ascii=False)
    return ToolResult("success", f"Showing {len(found)} results: {results}")
