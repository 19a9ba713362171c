"""The agent service's own tools: words to the user and to other agents, and searches in the
history."""

from __future__ import annotations

import json
from datetime import UTC, datetime, time, timedelta
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import BaseModel, BeforeValidator, Field

from services.agent.adapters.message_search import FoundMessage, MessageSearch, Search
from services.agent.adapters.multi_agent_tools import MultiAgentTools
from services.agent.adapters.tool_owner_port import Calling, Runner, error
from services.agent.domain.active_run import ToolResult
from services.agent.domain.call_arguments import arguments_of
from services.agent.domain.heartbeat_pauses import pause_minutes
from services.agent.domain.tools.custom_tools import HeldTool

SEARCH_RESULTS_DEFAULT = 5
SEARCH_RESULTS_MAX = 100
QUERY_CHARS_MAX = 2_000

type Span = tuple[datetime | None, datetime | None]


def one_or_many(value: object) -> object:
    """Models give one role where a list is asked for."""
    return [value] if isinstance(value, str) else value


class ConversationSearch(BaseModel):
    """Arguments of `conversation_search`."""

    query: Annotated[str | None, Field(max_length=QUERY_CHARS_MAX)] = None
    roles: Annotated[list[str] | None, BeforeValidator(one_or_many)] = None
    limit: int | None = None
    start_date: str | None = None
    end_date: str | None = None


class ConversationSearchDate(BaseModel):
    """Arguments of `conversation_search_date`."""

    start_date: str
    end_date: str
    page: Annotated[int, Field(ge=0)] = 0


class SendMessage(BaseModel):
    """Arguments of `send_message`."""

    message: str


class AgentTools:
    """Keeps the contract of `ToolOwner`."""

    def __init__(self, queries: MessageSearch, others: MultiAgentTools) -> None:
        self.queries = queries
        self.runners: dict[str, Runner] = {
            "conversation_search": self.conversation_search,
            "conversation_search_date": self.conversation_search_date,
            "pause_heartbeats": self.pause_heartbeats,
            "send_message": self.send_message,
            **others.runners,
        }

    def runner(self, tool: HeldTool) -> Runner | None:
        """What carries out calls of a tool; None if there is nothing yet that does."""
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
        """Find messages of the agent's history by their text, role and time."""
        wanted = ConversationSearch.model_validate_json(calling.call.arguments)
        zone = ZoneInfo(calling.design.config.timezone)
        span = time_span(wanted.start_date, wanted.end_date, zone)
        if span is None:
            return error("start_date and end_date are ISO dates: 2026-01-31 or 2026-01-31T14:30")
        roles = [role for role in wanted.roles or ["user", "assistant"] if role != "tool"]
        limit = min(max(wanted.limit or SEARCH_RESULTS_DEFAULT, 1), SEARCH_RESULTS_MAX)
        found = await self.search(calling, wanted.query or None, roles, span, limit)
        return shown(found, zone)

    async def conversation_search_date(self, calling: Calling) -> ToolResult:
        """List the messages between two dates, a page at a time, the newest first."""
        wanted = ConversationSearchDate.model_validate_json(calling.call.arguments)
        zone = ZoneInfo(calling.design.config.timezone)
        span = time_span(wanted.start_date, wanted.end_date, zone)
        if span is None or None in span:
            return error("start_date and end_date are days, as in 2026-01-31.")
        end = (wanted.page + 1) * SEARCH_RESULTS_DEFAULT
        if end > SEARCH_RESULTS_MAX:
            last = SEARCH_RESULTS_MAX // SEARCH_RESULTS_DEFAULT - 1
            return error(f"`page` is at most {last}: name dates that are nearer to each other.")
        found = await self.search(calling, None, ["user", "assistant"], span, end)
        return shown(found[end - SEARCH_RESULTS_DEFAULT :], zone)

    async def search(
        self, calling: Calling, text: str | None, roles: list[str], span: Span, limit: int
    ) -> list[FoundMessage]:
        """Messages of the agent's history, the newest first."""
        since, until = span
        return await self.queries.search_messages(
            Search(
                org=calling.context.org,
                agent_id=calling.design.config.id,
                text=text,
                roles=roles,
                since=since,
                until=until,
                limit=limit,
            )
        )


def shown(found: list[FoundMessage], zone: ZoneInfo) -> ToolResult:
    """What the model is told of messages that were found."""
    if not found:
        return ToolResult("success", "No results found.")
    listed = [
        {
            "timestamp": one.created_at.astimezone(zone).isoformat(timespec="seconds"),
            "role": one.role,
            "content": one.text,
        }
        for one in found
    ]
    results = json.dumps(listed, ensure_ascii=False)
    return ToolResult("success", f"Showing {len(found)} results: {results}")


def time_span(start: str | None, end: str | None, zone: ZoneInfo) -> Span | None:
    """From when to when; None for what is no time."""
    try:
        return moment(start, zone, end_of_day=False), moment(end, zone, end_of_day=True)
    except (ValueError, OverflowError):
        return None


def moment(text: str | None, zone: ZoneInfo, *, end_of_day: bool) -> datetime | None:
    """An ISO time in the agent's zone; a bare date means the beginning or the end of that day."""
    if not text:
        return None
    parsed = datetime.fromisoformat(text)
    if "T" not in text and ":" not in text and end_of_day:
        parsed = datetime.combine(parsed, time.min) + timedelta(days=1, microseconds=-1)
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=zone)
    return parsed.astimezone(UTC)
