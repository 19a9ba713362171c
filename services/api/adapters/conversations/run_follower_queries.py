"""Where a run stands and what it has answered, from the views that the agent service publishes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from libs.contracts.agent.stream_chunks import Chunk
from libs.contracts.letta.enums import MessageType
from libs.eventstore.connection_pool import DatabaseQueries


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """One stored message of an answer: the V1 messages that it is served as, and how it was
    streamed (see `libs.contracts.agent.stream_chunks`)."""

    v1_messages: list[dict[str, Any]]
    number: int | None
    chunks: list[Chunk] | None


@dataclass(frozen=True, slots=True)
class RunRow:
    """Where a run stands; stop reason, usage and error are there when it has ended. Its request
    asked for messages of `message_types`, null or none for all."""

    status: str
    stop_reason: str | None
    usage: dict[str, Any] | None
    error: dict[str, Any] | None
    background: bool
    stream_tokens: bool
    message_types: list[MessageType] | None = None


class RunQueries(DatabaseQueries):
    """The queries of a run's follower."""

    async def run_answer(self, org: str, run_id: str) -> list[AnswerPart]:
        """The messages that a run has answered so far, in order."""
        rows = await self.database.fetch(
            "select v1_messages, number, chunks from agent.message_view"
            " where run_id = %s and org = %s and not sent order by position",
            [run_id, org],
        )
        return [AnswerPart(*row) for row in rows]

    async def run_end(self, org: str, run_id: str) -> RunRow | None:
        """Where a run stands; None for one that is not there."""
        row = await self.database.fetch_one(
            "select status, stop_reason, usage, error, background, stream_tokens,"
            " fields->'request_config'->'include_return_message_types'"
            " from agent.run_view where id = %s and org = %s",
            [run_id, org],
        )
        return RunRow(*row) if row else None
