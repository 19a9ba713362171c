"""The tools of archival memory: texts that an agent stores, and finds again by their meaning."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel
from pydantic_core import to_json

from libs.bus.ports import Bus, Clock
from libs.contracts.bus_messages import Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.memory.archives import (
    EMBEDDING_SECONDS_MAX,
    PASSAGES_FOUND_MAX,
    FoundPassages,
    InsertPassages,
    NewPassage,
    SearchPassages,
)
from libs.contracts.time_range_parsing import in_zone
from services.agent.adapters.block_commands import cause_of
from services.agent.adapters.lenient_date_parsing import Reader
from services.agent.adapters.tool_owner_port import Calling, Runner, error, send_command
from services.agent.domain.runs.step_results import ToolResult

FOUND_DEFAULT = 5
FOUND_MAX = 50


class ArchivalMemoryInsert(BaseModel):
    """Arguments of `archival_memory_insert`."""

    content: str
    tags: list[str] | None = None


class ArchivalMemorySearch(BaseModel):
    """Arguments of `archival_memory_search`; `page` is one of older definitions."""

    query: str
    tags: list[str] | None = None
    tag_match_mode: Literal["any", "all"] | None = "any"
    top_k: int | None = None
    page: int | None = 0
    start_datetime: str | None = None
    end_datetime: str | None = None


class ArchivalMemoryTools:
    """Sends commands about passages. The same call is the same command, and its passage has the
    same id: done twice, it has the effect of once."""

    def __init__(self, bus: Bus, clock: Clock) -> None:
        self.send = partial(send_command, bus, seconds_max=EMBEDDING_SECONDS_MAX)
        self.clock = clock
        self.runners: dict[str, Runner] = {
            "archival_memory_insert": self.insert,
            "archival_memory_search": self.search,
        }

    async def insert(self, calling: Calling) -> ToolResult:
        """Store a text in the agent's archive."""
        wanted = ArchivalMemoryInsert.model_validate_json(calling.call.arguments)
        passage = NewPassage(
            id=derived_id("passage", calling.step_id, calling.call.id),
            text=wanted.content.replace("\x00", ""),
            tags=wanted.tags,
        )
        command = InsertPassages(
            passages=[passage], agent_id=calling.design.config.id, cause=cause_of(calling)
        )
        reply = await self.send(calling, command)
        if isinstance(reply, Rejected):
            # The model knows a passage's text by the name of the tool's argument.
            return error(reply.reason.replace("`text`", "`content`"))
        return ToolResult("success", "Stored in archival memory.")

    async def search(self, calling: Calling) -> ToolResult:
        """Find texts in the agent's archives, the best first."""
        wanted = ArchivalMemorySearch.model_validate_json(calling.call.arguments)
        zone = ZoneInfo(calling.design.config.timezone)
        start, end = wanted.start_datetime, wanted.end_datetime
        names = ("start_datetime", "end_datetime")
        bounds = Reader(self.clock.now(), zone).span(start, end, names)
        if isinstance(bounds, str):
            return error(bounds)
        if not wanted.query.strip():
            return error("`query` is empty: say in words what you are looking for.")
        on_page = min(max(wanted.top_k or FOUND_DEFAULT, 1), FOUND_MAX)
        begin = max(wanted.page or 0, 0) * on_page
        command = SearchPassages(
            asker=derived_id("search", calling.step_id, calling.call.id),
            query=wanted.query.replace("\x00", ""),
            agent_id=calling.design.config.id,
            tags=wanted.tags or [],
            tag_match=wanted.tag_match_mode or "any",
            after=bounds[0],
            before=bounds[1],
            limit=min(begin + on_page, PASSAGES_FOUND_MAX),
        )
        reply = await self.send(calling, command)
        if isinstance(reply, Rejected):
            return error(reply.reason)
        found = FoundPassages.model_validate(reply.result).passages
        shown = [shown_to_model(passage.fields, zone) for passage in found[begin:]]
        return ToolResult("success", to_json(shown).decode() if shown else "No results found.")


def shown_to_model(fields: Mapping[str, Any], zone: ZoneInfo) -> dict[str, Any]:
    """A passage as the model reads it, with its time in the agent's zone."""
    return {
        "timestamp": in_zone(str(fields["created_at"]), zone).isoformat(timespec="seconds"),
        "content": fields["text"],
        "tags": fields["tags"] or [],
    }
