"""Commands about replays of runs: load, decide, reply; models and tools are asked later."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Mapping

from libs.bus.command_dispatcher import Handler
from libs.contracts.agent.run_replays import (
    ORGANISATION_OPEN_REPLAYS_MAX,
    DeleteRunReplay,
    ReplayRun,
    ShowModelRequest,
)
from libs.contracts.bus_messages import (
    BUSY,
    CONFLICT,
    NOT_FOUND,
    TOO_LARGE,
    UNPROCESSABLE,
    Accepted,
    Command,
    Rejected,
)
from libs.contracts.letta.error_bodies import not_found
from libs.contracts.letta.model_configs import LLMConfig
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.work_lease import DueWork
from services.agent.adapters.replay_queries import RunToReplay
from services.agent.domain.agents.agent import Agent, missing
from services.agent.domain.conversations.active_run import step_id_of
from services.agent.domain.replays.live_tools import names_to_approve
from services.agent.domain.replays.run_replay import RunReplay
from services.agent.engine.recorded_context import RecordedContext
from services.agent.engine.recorded_history import CannotReplay, RecordedHistory
from services.agent.engine.replays import RunReplays
from services.agent.handlers.conversations import too_large
from services.agent.handlers.ports import HandlerPorts

READING_SECONDS_MAX = 10.0


class ReplayHandlers:
    """Takes requests for replays, and forgets those whose run is gone."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.ports = ports
        self.replays = RunReplays(ports.engine.ports)

    def table(self) -> Mapping[type[Command], Handler]:
        """The commands of these handlers, each with its method."""
        return {
            ReplayRun: self.replay_run,
            DeleteRunReplay: self.delete_replay,
            ShowModelRequest: self.show_model_request,
        }

    async def replay_run(self, command: ReplayRun, work: UnitOfWork) -> Accepted | Rejected:
        """Begin a replay, once that is durable."""
        org = work.context.org
        found = await self.ports.queries.run_to_replay(org, command.run_id)
        if found is None:
            return Rejected(code=NOT_FOUND, reason=str(not_found("run", command.run_id)["detail"]))
        agent = await work.load(Agent, found.run.agent_id)
        if agent.design is None:
            return missing(agent.id)
        to_approve = names_to_approve(agent.design.config)
        refused = refusal_of(found, command, to_approve) or await self.refusal_of_one_more(org)
        if refused:
            return refused
        llm = await self.model_of(command)
        if isinstance(llm, Rejected):
            return llm
        replay = await work.load_new(RunReplay, command.replay_id)
        refused = replay.request(command, found.run, llm, at=self.ports.clock.now())
        if refused:
            return refused
        self.replays.begin_after_commit(DueWork(replay.id, org), work)
        return Accepted(result={"replay_id": replay.id})

    async def refusal_of_one_more(self, org: str) -> Rejected | None:
        """Why no other replay can begin now."""
        if await self.ports.queries.open_replays(org) < ORGANISATION_OPEN_REPLAYS_MAX:
            return None
        reason = f"{ORGANISATION_OPEN_REPLAYS_MAX} replays have not ended: wait for one of them"
        return Rejected(code=BUSY, reason=reason)

    async def model_of(self, command: ReplayRun) -> LLMConfig | Rejected | None:
        """The model that is asked instead; None for that of then."""
        return None if command.model is None else await self.ports.handles.llm(command.model)

    async def show_model_request(
        self, command: ShowModelRequest, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Say what the model was asked in a step, as the log tells it."""
        org = work.context.org
        found = await self.ports.queries.run_to_replay(org, command.run_id)
        number = number_of(found, command.step_id) if found else 0
        if found is None or found.is_compaction or not number:
            reason = str(not_found("step", command.step_id)["detail"])
            return Rejected(code=NOT_FOUND, reason=reason)
        engine = self.ports.engine.ports
        try:
            async with asyncio.timeout(READING_SECONDS_MAX):
                history = RecordedHistory(self.ports.queries, org)
                recorded = await history.recorded_run(found.run, number)
        except TimeoutError:
            reason = f"The history before {command.step_id} is longer than can be read at once"
            return Rejected(code=TOO_LARGE, reason=reason)
        except CannotReplay as unknown:
            return Rejected(code=UNPROCESSABLE, reason=unknown.failure.message)
        context = RecordedContext(engine, org, recorded, history)
        context.show_as_then(number)
        payload = await engine.models.payload((await context.question(number)).request)
        if isinstance(payload, Rejected):
            return payload
        return too_large(payload) or Accepted(
            result={"payload": payload.decode(), "notes": [*context.notes]}
        )

    async def delete_replay(
        self, command: DeleteRunReplay, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Forget a replay; an attempt at it fails at its next commit."""
        replay = await work.load(RunReplay, command.replay_id)
        replay.delete(at=self.ports.clock.now())
        return Accepted()


def number_of(found: RunToReplay, step_id: str) -> int:
    """The number of a step of a run; 0 for one that is not its own."""
    run_id, count = found.run.run_id, found.question_count
    numbers = range(1, count + 1)
    return next((number for number in numbers if step_id_of(run_id, number) == step_id), 0)


def refusal_of(
    found: RunToReplay, command: ReplayRun, to_approve: Container[str]
) -> Rejected | None:
    """Why a run cannot be replayed so; None if it can. Calls of some tools wait for an approval by
    now."""
    run_id = command.run_id
    if not found.has_ended:
        return Rejected(code=CONFLICT, reason=f"{run_id} has not ended: replay it when it has")
    if found.is_compaction:
        reason = f"{run_id} compacted its conversation and answered nothing: replay another run"
        return Rejected(code=UNPROCESSABLE, reason=reason)
    if command.from_step > found.question_count:
        most = found.question_count
        reason = f"`from_step`: a model was asked for {most} steps of {run_id}, not for more"
        return Rejected(code=UNPROCESSABLE, reason=reason)
    waiting = {*found.gated, *(name for name in found.called if name in to_approve)}
    if command.mode == "live" and waiting:
        reason = (
            f"`mode`: {run_id} called {', '.join(sorted(waiting))}, which needs an approval, and a"
            ' replay has nobody to ask: use the mode "recorded"'
        )
        return Rejected(code=CONFLICT, reason=reason)
    return None
