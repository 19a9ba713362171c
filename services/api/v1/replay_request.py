"""A client's request for a replay of a run: begun durably, and waited for."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from libs.contracts.agent.run_replays import ReplayMode, ReplayRun, replay_deltas
from libs.contracts.letta.message_requests import STEPS_MAX
from libs.contracts.letta.request_size_limits import Name
from libs.work.progress import Progress, ProgressMessage, follow
from services.api.adapters.conversations.replay_queries import ReplayQueries
from services.api.http.callers import org_of
from services.api.http.handler_dependencies import api_of
from services.api.http.per_path_concurrency_limits import end_turn
from services.api.http.request_admission import unless_hung_up
from services.api.http.request_parsing import AnyRequest


class ReplayRequest(BaseModel):
    """The options of a replay: by the model of then or another one, from which step on, with tools
    that answer from the log or really run, and whether the answer waits for the end."""

    model: Name | None = None
    from_step: Annotated[int, Field(ge=1, le=STEPS_MAX)] = 1
    mode: ReplayMode = "recorded"
    background: bool = False


async def replay(request: AnyRequest, run_id: str, asked: ReplayRequest) -> str:
    """Have a run replayed, to its end unless that is left to the background; returns the id of the
    replay."""
    api, org = api_of(request), org_of(request)
    replay_id = api.new_id(request, "replay", run_id)
    command = ReplayRun(
        replay_id=replay_id,
        run_id=run_id,
        model=asked.model,
        from_step=asked.from_step,
        mode=asked.mode,
    )
    async with follow(api.bus, replay_deltas(org, replay_id)) as progress:
        await api.send(request, command, message_id=replay_id)
        end_turn(request.scope["state"])  # the model may take long
        if not asked.background:
            await wait_for_end(request, run_id, replay_id, progress)
    return replay_id


async def wait_for_end(
    request: AnyRequest, run_id: str, replay_id: str, progress: Progress
) -> None:
    """Return when a replay has ended, or is gone."""
    queries = ReplayQueries(api_of(request).reads.database)

    async def look() -> ProgressMessage | None:
        status = await queries.replay_status(org_of(request), run_id, replay_id)
        return None if status == "running" else {"end": True}

    if await look() is None:
        await unless_hung_up(request, progress.end(look))
