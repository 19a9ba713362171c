"""Follow a run of a group to its end, and show it as V1 shows the runs of agents."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from libs.contracts.bus_messages import JsonObject
from libs.contracts.groups.group_runs import group_run_deltas
from libs.contracts.letta import response_and_stream_events
from libs.contracts.letta.enums import MessageType, StopReasonType
from libs.contracts.letta.messages import Envelope, only_types
from libs.contracts.letta.response_and_stream_events import Usage
from libs.work.progress import Progress, follow
from services.api.adapters.groups.group_run_queries import ACTIVE, GroupRunQueries
from services.api.http.callers import org_of
from services.api.http.handler_dependencies import api_of
from services.api.http.request_admission import unless_hung_up
from services.api.http.request_parsing import AnyRequest
from services.api.http.server_sent_events import ChunkStream, data

LOOK_SECONDS, LOOK_SECONDS_MAX = 0.5, 5.0
GONE: JsonObject = {
    "error_type": "run_not_found",
    "message": "The run is gone: its group was deleted",
    "detail": None,
}


class GroupRunFollower:
    """A run of a group, watched until its end: its row is read when something is published about
    it, and now and then besides."""

    def __init__(self, request: AnyRequest, run_id: str) -> None:
        self.request = request
        self.run_id = run_id
        self.queries = GroupRunQueries(api_of(request).reads.database)
        self.org = org_of(request)
        self.following = follow(api_of(request).bus, group_run_deltas(self.org, run_id))
        self.progress: Progress | None = None
        self.look_seconds = LOOK_SECONDS

    async def __aenter__(self) -> GroupRunFollower:
        self.progress = await self.following.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await self.following.__aexit__(*raised)

    async def end(self) -> dict[str, Any]:
        """The run once it has ended; it counts as failed where its group was deleted. Raises the
        499 of a client that has hung up."""
        while True:
            run = await self.look()
            if run["status"] not in ACTIVE:
                return run
            await unless_hung_up(self.request, self.wait())

    async def look(self) -> dict[str, Any]:
        """The run as it is now."""
        run = await self.queries.run(self.org, self.run_id)
        if run is None:
            return {"id": self.run_id, "status": "failed", "stop_reason": "error", "error": GONE}
        return run

    async def wait(self) -> None:
        """Wait until the run is worth another look."""
        assert self.progress is not None, "it is entered"
        message = await self.progress.next(self.look_seconds)
        self.look_seconds = min(2 * self.look_seconds, LOOK_SECONDS_MAX) if not message else 0.5


async def answer_of(request: AnyRequest, run: dict[str, Any]) -> dict[str, Any]:
    """The answer of a group as V1 shows that of an agent, with the hops of its run."""
    queries = GroupRunQueries(api_of(request).reads.database)
    hops = await queries.hops(org_of(request), run["id"])
    messages = [message for hop in hops for message in hop.messages]
    reason = StopReasonType(run["stop_reason"])
    answer = response_and_stream_events.letta_response(messages, reason, usage_of(run))
    return {**answer, "group_run_id": run["id"], "hops": run["hops"]}


def usage_of(run: dict[str, Any]) -> JsonObject:
    """The tokens of all members, and their runs."""
    usage = run.get("usage") or {}
    prompt, completion = usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)
    return response_and_stream_events.usage_statistics(
        Usage(
            prompt_tokens=prompt,
            completion_tokens=completion,
            total_tokens=prompt + completion,
            step_count=usage.get("step_count", 0),
            run_ids=run.get("run_ids") or [],
            cached_input_tokens=usage.get("cached_input_tokens"),
            cache_write_tokens=usage.get("cache_write_tokens"),
            reasoning_tokens=usage.get("reasoning_tokens"),
        )
    )


def group_events(
    request: AnyRequest, run_id: str, *, types: Sequence[MessageType] | None, pings: bool
) -> ChunkStream:
    """The events of a run of a group."""
    return ChunkStream(events_of(request, run_id, types, pings=pings))


async def events_of(
    request: AnyRequest, run_id: str, types: Sequence[MessageType] | None, *, pings: bool
) -> AsyncGenerator[bytes]:
    """A ping with the run's id, the messages of each member when its hop is over, the stop reason,
    the usage, `[DONE]`."""
    stopping = request.app.state.stopping
    sent: set[int] = set()
    yield data(ping(request, run_id))
    async with GroupRunFollower(request, run_id) as follower:
        spoke_at = api_of(request).clock.monotonic()
        while not stopping.is_set():
            run = await follower.look()
            for hop in await follower.queries.hops(follower.org, run_id):
                if hop.hop not in sent:
                    sent.add(hop.hop)
                    for message in only_types(hop.messages, types):
                        yield data(message)
                    spoke_at = api_of(request).clock.monotonic()
            if run["status"] not in ACTIVE:
                yield closing(run)
                return
            await follower.wait()
            if pings and api_of(request).clock.monotonic() - spoke_at >= ping_seconds(request):
                spoke_at = api_of(request).clock.monotonic()
                yield data(ping(request, run_id))


def ping_seconds(request: AnyRequest) -> float:
    """The seconds that a stream may be silent."""
    return float(request.app.state.ping_seconds)


def ping(request: AnyRequest, run_id: str) -> JsonObject:
    """A keepalive that carries the run's id."""
    api = api_of(request)
    return response_and_stream_events.ping(
        Envelope(id=api.ids.new("ping"), date=api.clock.now(), run_id=run_id)
    )


def closing(run: dict[str, Any]) -> bytes:
    """The last events of a stream."""
    reason = StopReasonType(run["stop_reason"])
    events = [data(response_and_stream_events.stop_reason(reason))]
    if run["status"] == "failed":
        error = run["error"]
        problem = response_and_stream_events.error_message(
            run["id"], str(error["error_type"]), str(error["message"])
        )
        events.append(b"event: error\n" + data(problem))
    elif run["status"] != "cancelled":
        events.append(data(usage_of(run)))
    return b"".join([*events, b"data: [DONE]\n\n"])
