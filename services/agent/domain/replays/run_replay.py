"""A replay of a run: what is to be replayed, how far it has come, and its end."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from pydantic import BaseModel

from libs.contracts.agent.run_replays import (
    ReplayedAnswer,
    ReplayedEnd,
    ReplayedFact,
    ReplayedRun,
    ReplayMode,
    ReplayRun,
    RunReplayAdvanced,
    RunReplayCompleted,
    RunReplayDeleted,
    RunReplayFailed,
    RunReplayRequested,
    RunReplayStepCompared,
)
from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import CONFLICT, Event, Rejected
from libs.contracts.letta.model_configs import LLMConfig
from services.agent.domain.replays.step_comparison import ComparedStep
from services.agent.domain.runs.step_results import Failure, error_fields

Phase = Literal["unknown", "running", "ended", "deleted"]


class RunReplayState(BaseModel):
    """The state of a replay; the facts only while it goes on."""

    phase: Phase = "unknown"
    run: ReplayedRun | None = None
    mode: ReplayMode = "recorded"
    from_step: int = 1
    model: str | None = None
    llm_config: LLMConfig | None = None
    requested_at: datetime | None = None
    facts: list[ReplayedFact] = []
    answers: list[ReplayedAnswer] = []


class RunReplay(Aggregate[RunReplayState]):
    """One replay."""

    State = RunReplayState

    @property
    def deleted(self) -> bool:
        """Whether it has stopped existing."""
        return self.state.phase == "deleted"

    @property
    def is_running(self) -> bool:
        """Whether it was requested and has not ended."""
        return self.state.phase == "running"

    @property
    def run(self) -> ReplayedRun:
        """The run that is replayed."""
        assert self.state.run is not None, "a replay is of a run"
        return self.state.run

    def request(
        self, command: ReplayRun, run: ReplayedRun, llm: LLMConfig | None, *, at: datetime
    ) -> Rejected | None:
        """Begin; refused where that was done before."""
        if self.exists:
            return Rejected(code=CONFLICT, reason=f"Replay {self.id} exists already")
        self.record(
            RunReplayRequested,
            at=at,
            agent_id=run.agent_id,
            run=run,
            mode=command.mode,
            from_step=command.from_step,
            model=command.model,
            llm_config=llm,
        )
        return None

    def advance(
        self,
        known: int,
        facts: Sequence[ReplayedFact],
        answers: Sequence[ReplayedAnswer],
        *,
        at: datetime,
    ) -> bool:
        """Keep what has happened in the replay behind the `known` facts; returns whether it was
        still that far."""
        if not self.is_running or len(self.state.facts) != known:
            return False
        if facts:
            self.record(
                RunReplayAdvanced,
                at=at,
                agent_id=self.run.agent_id,
                facts=[*facts],
                answers=[*answers],
            )
        return True

    def complete(
        self,
        steps: Sequence[ComparedStep],
        recorded: ReplayedEnd,
        replayed: ReplayedEnd,
        notes: Sequence[str],
        *,
        at: datetime,
    ) -> None:
        """End with the comparison of both transcripts, unless it has ended."""
        if not self.is_running:
            return
        agent_id = self.run.agent_id
        for step in steps:
            self.record(
                RunReplayStepCompared,
                at=at,
                agent_id=agent_id,
                number=step.number,
                recorded=step.recorded,
                replayed=step.replayed,
                answers=step.answers,
                differences=step.differences,
            )
        differing = [step.number for step in steps if step.differences]
        same_end = recorded.stop_reason == replayed.stop_reason
        self.record(
            RunReplayCompleted,
            at=at,
            agent_id=agent_id,
            same=not differing and same_end,
            first_difference=differing[0] if differing else None,
            recorded=recorded,
            replayed=replayed,
            notes=[*notes],
        )

    def fail(self, failure: Failure, *, at: datetime) -> None:
        """End without a comparison, unless it has ended."""
        if self.is_running:
            self.record(
                RunReplayFailed,
                at=at,
                agent_id=self.run.agent_id,
                **error_fields(failure),
            )

    def delete(self, *, at: datetime) -> None:
        """Go with the run; safe to repeat."""
        if self.exists and not self.deleted:
            self.record(RunReplayDeleted, at=at, agent_id=self.run.agent_id)

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        state = self.state
        match event:
            case RunReplayRequested():
                state.phase, state.run = "running", event.run
                state.mode, state.from_step = event.mode, event.from_step
                state.model, state.llm_config = event.model, event.llm_config
                state.requested_at = event.timestamp
            case RunReplayAdvanced():
                state.facts = [*state.facts, *event.facts]
                state.answers = [*state.answers, *event.answers]
            case RunReplayCompleted() | RunReplayFailed():
                state.phase, state.facts, state.answers = "ended", [], []
            case RunReplayDeleted():
                self.state = RunReplayState(phase="deleted", run=state.run)
