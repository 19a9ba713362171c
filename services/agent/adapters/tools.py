"""Run the tools that a model calls: memory's by command, searches by query."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Annotated, Protocol
from zoneinfo import ZoneInfo

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from libs.bus.ports import Bus, BusUnavailable, Clock, request_as_service
from libs.contracts.conversation import ToolCall
from libs.contracts.ids import derived_id
from libs.contracts.letta.base_tools import (
    BASE_TOOLS,
    TOOL_ARGUMENTS_CHARS_MAX,
    TOOL_RETURN_CHARS_MAX,
)
from libs.contracts.letta.prompt_text import unquoted
from libs.contracts.memory import Cause, Edit, EditBlock, InsertText, ReplaceText
from libs.contracts.message import Accepted, Context
from libs.eventstore import failpoints
from libs.eventstore.ports import StoreUnavailable
from services.agent.adapters.queries import Queries, Search
from services.agent.domain.agent import Design
from services.agent.domain.turn import ToolResult

log = logging.getLogger(__name__)

SEARCH_RESULTS_DEFAULT = 5
SEARCH_RESULTS_MAX = 100
QUERY_CHARS_MAX = 2_000
PROBLEMS_TOLD_MAX = 10
OUTAGE_SECONDS_MAX = 120.0
OUTAGE_RETRY_SECONDS = 1.0

EDITS = frozenset({"memory_replace", "memory_insert"})


class Tools(Protocol):
    """The tools of agents."""

    def idempotent(self, name: str) -> bool:
        """Whether the tool may be run again after a crash."""
        ...

    async def run(
        self, call: ToolCall, design: Design, run_id: str, step_id: str, context: Context
    ) -> ToolResult:
        """Run a tool; whatever goes wrong is a result that the model sees."""
        ...


class MemoryReplace(BaseModel):
    """Arguments of `memory_replace`."""

    label: str
    old_string: str
    new_string: str


class MemoryInsert(BaseModel):
    """Arguments of `memory_insert`."""

    label: str
    new_string: str
    insert_line: int = -1


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


@dataclass(frozen=True, slots=True)
class Calling:
    """What a tool knows of the call that it carries out."""

    call: ToolCall
    design: Design
    run_id: str
    step_id: str
    context: Context


class BaseToolRunner:
    """Runs the base tools that are built; says so of the others."""

    def __init__(self, bus: Bus, queries: Queries, clock: Clock) -> None:
        self.bus = bus
        self.queries = queries
        self.clock = clock
        self.runners: dict[str, Callable[[Calling], Awaitable[ToolResult]]] = {
            "memory_replace": self.memory_replace,
            "memory_insert": self.memory_insert,
            "conversation_search": self.conversation_search,
        }

    def idempotent(self, name: str) -> bool:
        """Whether the tool may be run again after a crash.

        Memory remembers the command of an edit, so that happens once however often it is sent;
        a tool that is not built does nothing.
        """
        tool = BASE_TOOLS.get(name)
        remembered = name in EDITS or name not in self.runners
        return remembered or (tool is not None and tool.idempotent)

    async def run(
        self, call: ToolCall, design: Design, run_id: str, step_id: str, context: Context
    ) -> ToolResult:
        """Run a tool; whatever goes wrong is a result that the model sees."""
        if call.name not in design.tools:
            return error(
                f"There is no tool named '{call.name}'. Yours are: {', '.join(design.tools)}"
            )
        if len(call.arguments) >= TOOL_ARGUMENTS_CHARS_MAX:
            return error(f"The arguments were cut: {TOOL_ARGUMENTS_CHARS_MAX} characters at most.")
        runner = self.runners.get(call.name)
        if runner is None:
            return error(f"The tool '{call.name}' is not built yet on this server.")
        calling = Calling(call, design, run_id, step_id, context)
        give_up_at = self.clock.monotonic() + OUTAGE_SECONDS_MAX
        while True:
            try:
                result = await runner(calling)
            except ValidationError as invalid:
                return error(f"The arguments do not fit '{call.name}': {summary(invalid)}")
            except (BusUnavailable, StoreUnavailable) as outage:
                log.warning("tool %s waits: %s", call.name, outage)
                if self.clock.monotonic() > give_up_at:
                    return error(f"'{call.name}' got no answer, and may or may not have worked.")
                await self.clock.sleep(OUTAGE_RETRY_SECONDS)
            else:
                failpoints.reached("after_tool")
                return shortened(result)

    async def memory_replace(self, calling: Calling) -> ToolResult:
        """Replace a text in a memory block."""
        wanted = MemoryReplace.model_validate_json(calling.call.arguments)
        edit = ReplaceText(old_text=wanted.old_string, new_text=wanted.new_string)
        return await self.edit(calling, wanted.label, edit)

    async def memory_insert(self, calling: Calling) -> ToolResult:
        """Insert lines into a memory block."""
        wanted = MemoryInsert.model_validate_json(calling.call.arguments)
        edit = InsertText(new_text=wanted.new_string, after_line=wanted.insert_line)
        return await self.edit(calling, wanted.label, edit)

    async def edit(self, calling: Calling, label: str, edit: Edit) -> ToolResult:
        """Send an edit to the memory service; the same call is the same command."""
        labels = await self.queries.labels(calling.design.block_ids)
        by_label = {its_label: one for one, its_label in labels.items()}
        block_id = by_label.get(label) or by_label.get(unquoted(label))
        if block_id is None:
            known = ", ".join(sorted(labels.values())) or "none"
            return error(f"You have no memory block labelled '{label}'. Yours are: {known}")
        cause = Cause(
            agent_id=calling.design.config.id,
            run_id=calling.run_id,
            tool_call_id=calling.call.id,
            tool=calling.call.name,
        )
        command_id = derived_id("cmd", calling.step_id, calling.call.id)
        failpoints.reached("during_tool")
        reply = await request_as_service(
            self.bus,
            EditBlock(block_id=block_id, edit=edit, cause=cause),
            calling.context.caused(command_id),
        )
        if isinstance(reply, Accepted):
            return ToolResult("success", str(reply.result["value"]))
        return error(reply.reason)

    async def conversation_search(self, calling: Calling) -> ToolResult:
        """Find messages of the agent's history by their text, role and time."""
        wanted = ConversationSearch.model_validate_json(calling.call.arguments)
        config = calling.design.config
        zone = ZoneInfo(config.timezone)
        try:
            since = moment(wanted.start_date, zone, end_of_day=False)
            until = moment(wanted.end_date, zone, end_of_day=True)
        except (ValueError, OverflowError):
            return error("start_date and end_date are ISO dates: 2026-01-31 or 2026-01-31T14:30")
        roles = [role for role in wanted.roles or ["user", "assistant"] if role != "tool"]
        found = await self.queries.search_messages(
            Search(
                agent_id=config.id,
                text=wanted.query or None,
                roles=roles,
                since=since,
                until=until,
                limit=min(max(wanted.limit or SEARCH_RESULTS_DEFAULT, 1), SEARCH_RESULTS_MAX),
            )
        )
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


def error(text: str) -> ToolResult:
    """A result that tells the model what went wrong."""
    return ToolResult("error", text)


def shortened(result: ToolResult) -> ToolResult:
    """The result within the limit of what a tool may return."""
    if len(result.text) <= TOOL_RETURN_CHARS_MAX:
        return result
    kept = result.text[:TOOL_RETURN_CHARS_MAX]
    note = f"... [{len(result.text) - TOOL_RETURN_CHARS_MAX} characters left out]"
    return ToolResult(result.status, kept + note)


def summary(invalid: ValidationError) -> str:
    """What is wrong with the arguments, field by field."""
    return "; ".join(
        f"{'.'.join(map(str, problem['loc'])) or 'arguments'}: {problem['msg']}"
        for problem in invalid.errors(include_input=False)[:PROBLEMS_TOLD_MAX]
    )
