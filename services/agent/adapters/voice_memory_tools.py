"""The tools of agents for voice that keep and find what has dropped out of view."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from datetime import timedelta
from functools import partial
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field
from pydantic_core import to_json

from libs.bus.ports import Bus, Clock
from libs.contracts.bus_messages import Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.memory.archives import (
    EMBEDDING_SECONDS_MAX,
    PASSAGES_INSERTED_MAX,
    FoundPassages,
    InsertPassages,
    NewPassage,
    SearchPassages,
)
from services.agent.adapters.all_queries import Queries
from services.agent.adapters.block_commands import cause_of
from services.agent.adapters.conversation_search import Search
from services.agent.adapters.tool_owner_port import Calling, Runner, error, send_command
from services.agent.domain.runs.step_results import ToolResult

KEYWORDS_MAX = 10
MESSAGES_OF_A_KEYWORD = 3
PASSAGES_FOUND = 5
QUERY_CHARS_MAX = 2_000
STORED_CHARS_MAX = 1_000_000  # of one call
MINUTES_MAX = 60 * 24 * 366 * 100

_NUMBERED_LINE = re.compile(r"\s*(\d{1,6})\. (.*)")

Minutes = Annotated[int | None, Field(ge=0, le=MINUTES_MAX)]


class SearchMemory(BaseModel):
    """Arguments of `search_memory`."""

    convo_keyword_queries: Annotated[
        list[Annotated[str, Field(max_length=QUERY_CHARS_MAX)]] | None,
        BeforeValidator(lambda given: [given] if isinstance(given, str) else given),
        Field(max_length=KEYWORDS_MAX),
    ] = None
    start_minutes_ago: Minutes = None
    end_minutes_ago: Minutes = None


class Chunk(BaseModel):
    """Lines of a conversation, from one to another, and what they say."""

    start_index: Annotated[int, Field(ge=0)]
    end_index: Annotated[int, Field(ge=0)]
    context: str


class StoreMemories(BaseModel):
    """Arguments of `store_memories`."""

    chunks: Annotated[list[Chunk], Field(min_length=1, max_length=PASSAGES_INSERTED_MAX)]


class VoiceMemoryTools:
    """Sends commands about passages, and searches the history."""

    def __init__(self, bus: Bus, queries: Queries, clock: Clock) -> None:
        self.send = partial(send_command, bus, seconds_max=EMBEDDING_SECONDS_MAX)
        self.queries = queries
        self.clock = clock
        self.runners: dict[str, Runner] = {
            "search_memory": self.search_memory,
            "store_memories": self.store_memories,
        }

    async def search_memory(self, calling: Calling) -> ToolResult:
        """Find stored texts by what the user said last, and messages by words."""
        wanted = SearchMemory.model_validate_json(calling.call.arguments)
        ends = [
            None if ago is None else self.clock.now() - timedelta(minutes=ago)
            for ago in (wanted.end_minutes_ago, wanted.start_minutes_ago)
        ]
        after, before = ends
        if after is not None and before is not None:
            after, before = min(after, before), max(after, before)
        said = await self.messages(calling, None, 1)
        command = SearchPassages(
            asker=derived_id("search", calling.step_id, calling.call.id),
            query=said[0][:QUERY_CHARS_MAX] if said else "",
            agent_id=calling.design.config.id,
            after=after,
            before=before,
            limit=PASSAGES_FOUND,
        )
        reply = await self.send(calling, command)
        if isinstance(reply, Rejected):
            return error(reply.reason)
        passages = FoundPassages.model_validate(reply.result).passages
        found: dict[str, Any] = {
            "archival_search_results": [
                {"timestamp": passage.fields["created_at"], "content": passage.fields["text"]}
                for passage in passages
            ]
        }
        if wanted.convo_keyword_queries:
            by_word = {
                word: await self.messages(calling, word, MESSAGES_OF_A_KEYWORD)
                for word in dict.fromkeys(wanted.convo_keyword_queries)
                if word.strip()
            }
            found["convo_keyword_search_results"] = {w: m for w, m in by_word.items() if m}
        return ToolResult("success", to_json(found).decode())

    async def store_memories(self, calling: Calling) -> ToolResult:
        """Store ranges of the numbered lines in the newest message of the user, all or none."""
        wanted = StoreMemories.model_validate_json(calling.call.arguments)
        said = await self.messages(calling, None, 1)
        matches = map(_NUMBERED_LINE.match, said[0].split("\n") if said else [])
        lines = {int(found[1]): found[2] for found in matches if found}
        if not lines:
            return error("There is no transcript: no line of the last message begins with a number")
        passages, numbers, chars = [], sorted(lines), 0
        for number, chunk in enumerate(wanted.chunks):
            begin = bisect_left(numbers, chunk.start_index)
            text = [lines[n] for n in numbers[begin : bisect_right(numbers, chunk.end_index)]]
            chars += sum(map(len, text))
            if chars > STORED_CHARS_MAX:
                return error(
                    f"The chunks have more than {STORED_CHARS_MAX} characters together: give fewer"
                    " or shorter ones."
                )
            if not text:
                return error(
                    f"Chunk {number} has no line: `start_index` {chunk.start_index} to `end_index`"
                    f" {chunk.end_index}, where the lines are {numbers[0]} to {numbers[-1]}."
                )
            passages.append(
                NewPassage(
                    id=derived_id("passage", calling.step_id, calling.call.id, str(number)),
                    text="\n".join([chunk.context, *text]).replace("\x00", ""),
                )
            )
        own_id = calling.design.config.id
        owner = await self.queries.archive_owner(calling.context.org, own_id)
        command = InsertPassages(passages=passages, agent_id=owner, cause=cause_of(calling))
        reply = await self.send(calling, command)
        if isinstance(reply, Rejected):
            return error(reply.reason)
        return ToolResult("success", f"{len(passages)} memories are stored.")

    async def messages(self, calling: Calling, text: str | None, limit: int) -> list[str]:
        """The texts of messages, the newest first; without words those of the user."""
        found = await self.queries.search_messages(
            Search(
                org=calling.context.org,
                agent_id=calling.design.config.id,
                text=text,
                roles=["user"] if text is None else ["user", "assistant"],
                since=None,
                until=None,
                limit=limit,
            )
        )
        return [message.text for message in found]
