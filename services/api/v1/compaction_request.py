"""A client's request to compact a conversation: begun as a run, and waited for."""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, JsonValue, ValidationInfo

from libs.contracts.agent.compaction import CompactConversation
from libs.contracts.bus_messages import JsonObject
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta.request_size_limits import JsonLimit, Name
from libs.contracts.letta.runs import RunConfig
from services.api.adapters.conversations.run_follower import Ended, RunFollower, StreamedChunk
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem, run_failed
from services.api.http.handler_dependencies import api_of
from services.api.http.per_path_concurrency_limits import end_turn
from services.api.http.request_parsing import AnyRequest, parse
from services.api.v1.message_request import Addressee, is_retry

# How the run of a compaction fails that would have made nothing shorter.
NOTHING_TO_COMPACT = "nothing_to_compact"


def refuse(value: JsonValue, info: ValidationInfo) -> JsonValue:
    """Refuse a field that would have no effect. Raises ValueError."""
    if value is not None:
        raise ValueError(
            f"`{info.field_name}` is a field of `POST /v1/agents/{{agent_id}}/summarize` alone:"
            " leave it out, and say with `compaction_settings` how much is summarised"
            " (`sliding_window_percentage`) and how (`prompt`, `clip_chars`)"
        )
    return value


OfAnAgent = Annotated[JsonValue, AfterValidator(refuse)]


class CompactionRequest(BaseModel):
    """The options of a compaction that differ from the agent's own settings."""

    agent_id: Name | None = None
    compaction_settings: Annotated[bodies.CompactionSettings, JsonLimit()] | None = None
    message_count: OfAnAgent = None
    start_date: OfAnAgent = None
    end_date: OfAnAgent = None
    summary_length: OfAnAgent = None
    save_to_archival: OfAnAgent = None


async def read_compaction(request: AnyRequest) -> CompactionRequest:
    """The body of a request to compact, which may be left out."""
    return parse(await request.body() or b"{}", CompactionRequest)


async def compact(request: AnyRequest, to: Addressee, asked: CompactionRequest) -> JsonObject:
    """Have the conversation compacted when its turn comes; V1's answer says with which summary."""
    api = api_of(request)
    command = await command_of(request, to, asked)
    follower = RunFollower(api.runs, api.bus, org_of(request), command.run.id)
    await follower.__aenter__()
    try:
        reply = await api.send(request, command, message_id=command.run.id, keyed=False)
        end_turn(request.scope["state"])  # the model may take long
        if "summary" in reply.result:
            count = 2
            return response(str(reply.result["summary"]), count, count)
        run_id = str(reply.result["run_id"])
        if run_id == follower.run_id:
            return await outcome(follower, look_first=command.retry)
    finally:
        await follower.__aexit__()
    async with RunFollower(api.runs, api.bus, org_of(request), run_id) as earlier:
        return await outcome(earlier, look_first=True)


async def command_of(
    request: AnyRequest, to: Addressee, asked: CompactionRequest
) -> CompactConversation:
    """The command; with an Idempotency-Key its run has the same id each time."""
    api = api_of(request)
    key = request.headers.get("idempotency-key")
    name = (org_of(request), to.name, "compact")
    settings = asked.compaction_settings
    digest = sha256(b"compact\n")
    digest.update(await request.body())
    run = RunConfig(
        id=derived_id("run", *name, key) if key else api.ids.new("run"),
        created_at=api.clock.now(),
        agent_id=to.agent_id,
        conversation_id=None if to.is_own else to.conversation_id,
        metadata={"run_type": "compaction"},
    )
    return CompactConversation(
        agent_id=to.agent_id,
        conversation_id=to.conversation_id,
        run=run,
        request_hash=digest.hexdigest(),
        retry=not key and is_retry(request),
        settings=settings.model_dump(mode="json", exclude_unset=True) if settings else {},
    )


async def outcome(follower: RunFollower, *, look_first: bool) -> JsonObject:
    """The outcome of a compaction, once its run has ended."""
    summary: dict[str, Any] | None = None
    async for event in follower.events(look_first=look_first):
        if isinstance(event, StreamedChunk) and "compaction_stats" in event.message:
            summary = event.message
        if isinstance(event, Ended):
            return answer_of(event, summary)
    raise AssertionError("following a run ends with its end")


def answer_of(end: Ended, summary: dict[str, Any] | None) -> JsonObject:
    """The answer to a request whose run has ended so; raises the problem that it ended with."""
    if end.error and end.error["error_type"] == NOTHING_TO_COMPACT:
        raise Problem(400, {"detail": str(end.error["message"])})
    if end.error:
        raise run_failed(end.error)
    if summary is None:
        detail = "The compaction was cancelled before it was done: nothing was changed"
        raise Problem(409, {"detail": detail}, {"x-should-retry": "false"})
    stats = summary["compaction_stats"]
    counts = (stats["messages_count_before"], stats["messages_count_after"])
    return response(str(summary["summary"]), *counts)


def response(summary: str, before: int, after: int) -> JsonObject:
    """V1's answer to a compaction."""
    return {"summary": summary, "num_messages_before": before, "num_messages_after": after}
