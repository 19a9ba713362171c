"""A client's request for a summary of its own: begun durably, and waited for."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from libs.contracts.agent.summaries import (
    MESSAGES_SUMMARISED_MAX,
    SummarizeMessages,
    SummaryLength,
    summary_deltas,
)
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta.request_size_limits import JsonLimit, Name
from libs.contracts.time_range_parsing import FORMS, first_moment, last_moment
from libs.work.progress import Progress, ProgressMessage, follow
from services.api.adapters.conversations.summary_queries import SummaryQueries, SummaryRow
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem, run_failed
from services.api.http.handler_dependencies import api_of
from services.api.http.per_path_concurrency_limits import end_turn
from services.api.http.request_admission import unless_hung_up
from services.api.http.request_parsing import AnyRequest
from services.api.v1.compaction_request import CompactionRequest
from services.api.v1.message_request import is_retry

HIDDEN_FIELDS = ("parts", "save_to_archival")
SUMMARY_FIELDS = ("message_count", "start_date", "end_date", "summary_length", "save_to_archival")


def first_date(value: Any) -> datetime | None:
    """From when on messages are meant: a date means its beginning. Raises ValueError."""
    return None if value is None else parsed_date(value, is_last=False)


def last_date(value: Any) -> datetime | None:
    """Up to when messages are meant: a date means its end. Raises ValueError."""
    return None if value is None else parsed_date(value, is_last=True)


def parsed_date(value: Any, *, is_last: bool) -> datetime:
    """A moment in UTC. Raises ValueError."""
    try:
        return (last_moment if is_last else first_moment)(value, UTC)
    except (ValueError, AttributeError, TypeError):
        raise ValueError(f"Use {FORMS}") from None


class SummarizeRequest(BaseModel):
    """Either how to compact the conversation, or which messages are to be summarised and how:
    the newest `message_count` of those from `start_date` to `end_date`."""

    agent_id: Name | None = None
    compaction_settings: Annotated[bodies.CompactionSettings, JsonLimit()] | None = None
    message_count: Annotated[int, Field(ge=1, le=MESSAGES_SUMMARISED_MAX)] | None = None
    start_date: Annotated[datetime | None, BeforeValidator(first_date)] = None
    end_date: Annotated[datetime | None, BeforeValidator(last_date)] = None
    summary_length: SummaryLength | None = None
    save_to_archival: bool | None = None

    @property
    def wants_summary(self) -> bool:
        """Whether any field of a summary is set."""
        return any(getattr(self, name) is not None for name in SUMMARY_FIELDS)

    def as_compaction(self) -> CompactionRequest:
        """The request where it is V1's."""
        return CompactionRequest(
            agent_id=self.agent_id, compaction_settings=self.compaction_settings
        )

    @model_validator(mode="after")
    def check_together(self) -> SummarizeRequest:
        """Refuse fields that do not go together. Raises ValueError."""
        if self.wants_summary and self.compaction_settings is not None:
            raise ValueError(
                "`compaction_settings` is about a compaction, and the other fields about a summary"
                " that leaves the conversation as it is: leave out the one or the others"
            )
        if self.start_date and self.end_date and self.start_date > self.end_date:
            raise ValueError(
                "`start_date` is after `end_date`: give the earlier one as `start_date`"
            )
        return self


async def summarize(request: AnyRequest, agent_id: str, asked: SummarizeRequest) -> JsonObject:
    """Have messages summarised, and answer with the summary once it is there and saved."""
    api, org = api_of(request), org_of(request)
    command = await command_of(request, agent_id, asked)
    async with follow(api.bus, summary_deltas(org, command.summary_id)) as progress:
        reply = await api.send(request, command, message_id=command.summary_id)
        end_turn(request.scope["state"])  # the model may take long
        if "summary_id" not in reply.result:
            return empty_summary(asked, command)
        summary_id = str(reply.result["summary_id"])
        if summary_id == command.summary_id:
            return await wait_for_end(request, summary_id, progress)
    async with follow(api.bus, summary_deltas(org, summary_id)) as progress:
        return await wait_for_end(request, summary_id, progress)


async def wait_for_end(request: AnyRequest, summary_id: str, progress: Progress) -> JsonObject:
    """The answer to a request for a summary, once that has ended. Raises its problem."""

    async def look() -> ProgressMessage | None:
        row = await rows.summary(org_of(request), summary_id)
        return {"end": True} if row is None or row.status != "running" else None

    rows = SummaryQueries(api_of(request).reads.database)
    if await look() is None:
        await unless_hung_up(request, progress.end(look))
    return answer_of(await rows.summary(org_of(request), summary_id))


async def command_of(
    request: AnyRequest, agent_id: str, asked: SummarizeRequest
) -> SummarizeMessages:
    """The command; with an Idempotency-Key its summary has the same id each time."""
    digest = sha256(b"summarize\n")
    digest.update(await request.body())
    keyed = bool(request.headers.get("idempotency-key"))
    return SummarizeMessages(
        summary_id=api_of(request).new_id(request, "summary", agent_id),
        agent_id=agent_id,
        message_count=asked.message_count,
        start_date=asked.start_date,
        end_date=asked.end_date,
        summary_length=asked.summary_length or "medium",
        save_to_archival=asked.save_to_archival is not False,
        request_hash=digest.hexdigest(),
        retry=not keyed and is_retry(request),
    )


def answer_of(row: SummaryRow | None) -> JsonObject:
    """The summary. Raises the problem that it ended with."""
    if row is None:
        raise Problem(404, {"detail": "The agent was deleted while its messages were summarised"})
    if row.error is not None:
        raise run_failed(row.error)
    return {name: value for name, value in row.fields.items() if name not in HIDDEN_FIELDS}


def empty_summary(asked: SummarizeRequest, command: SummarizeMessages) -> JsonObject:
    """The summary of no messages: no model was asked, and nothing is saved."""
    return {
        "id": None,
        "agent_id": command.agent_id,
        "conversation_id": None,
        "created_at": None,
        "summary": "",
        "summary_length": command.summary_length,
        "message_count": 0,
        "start": asked.start_date.isoformat() if asked.start_date else None,
        "end": asked.end_date.isoformat() if asked.end_date else None,
        "archival_passage_id": None,
        "archival_error": None,
        "model": None,
        "usage": None,
    }
