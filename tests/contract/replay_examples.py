"""An example of each message about replays of runs, and their histories."""

from __future__ import annotations

from typing import Any

from libs.contracts.agent.conversations import Usage, main_conversation
from libs.contracts.agent.run_replays import (
    DeleteRunReplay,
    ReplayedAnswer,
    ReplayedEnd,
    ReplayedFact,
    ReplayedRun,
    ReplayedStep,
    ReplayRun,
    RunReplayAdvanced,
    RunReplayCompleted,
    RunReplayDeleted,
    RunReplayFailed,
    RunReplayRequested,
    RunReplayStepCompared,
    ShowModelRequest,
)
from libs.contracts.bus_messages import Command, Event
from services.agent.domain.agents.model_config_resolution import llm_config
from tests.contract.agent_folder_examples import AGENT
from tests.contract.file_examples import AT

REPLAY = "replay-16161616-1616-4616-8616-161616161616"
RUN = "run-99999999-9999-4999-8999-999999999999"
STEP_ID = "step-99999999-9999-4999-8999-999999999999"
USED = Usage(prompt_tokens=100, completion_tokens=20)
MODEL = "anthropic/claude-sonnet-4-5"
REPLAYED_RUN = ReplayedRun(
    run_id=RUN, agent_id=AGENT, conversation_id=main_conversation(AGENT), accepted_version=7
)
STEP = ReplayedStep(
    model=MODEL,
    finish_reason="stop",
    usage=USED,
    at=AT,
    model_ns=900_000_000,
    tool_ns=2_000_000,
    messages=[{"message_type": "assistant_message", "content": "Tea."}],
)
ANSWER = ReplayedAnswer(
    step=2, tool_call_id="call_1", tool="web_search", source="not_recorded", note="not in the log"
)
END = ReplayedEnd(
    stop_reason="llm_api_error",
    error={"error_type": "llm_timeout", "message": "late", "detail": None},
    steps=1,
    usage=USED,
    duration_ns=902_000_000,
)


def of_replay(kind: type[Event], **fields: Any) -> Event:
    """An event about a replay."""
    return kind(originator_id=REPLAY, originator_version=1, timestamp=AT, agent_id=AGENT, **fields)


COMMANDS: list[Command] = [
    ReplayRun(replay_id=REPLAY, run_id=RUN, model=MODEL, from_step=2, mode="live"),
    DeleteRunReplay(replay_id=REPLAY),
    ShowModelRequest(run_id=RUN, step_id=STEP_ID),
]
REQUESTED = of_replay(
    RunReplayRequested,
    run=REPLAYED_RUN,
    mode="live",
    from_step=2,
    model=MODEL,
    llm_config=llm_config(
        MODEL,
        endpoint_type="anthropic",
        endpoint="https://api.anthropic.com/v1",
        context_window=200_000,
        max_tokens=8_192,
    ),
)
ADVANCED = of_replay(
    RunReplayAdvanced,
    facts=[
        ReplayedFact(
            topic="run.completed",
            schema_version=1,
            at=AT,
            payload={"run_id": RUN, "stop_reason": "end_turn"},
        )
    ],
    answers=[ANSWER],
)
COMPARED = of_replay(
    RunReplayStepCompared,
    number=2,
    recorded=STEP,
    replayed=STEP,
    answers=[ANSWER],
    differences=[{"message": 0, "fields": ["content"]}],
)
COMPLETED = of_replay(
    RunReplayCompleted,
    same=False,
    first_difference=2,
    recorded=END,
    replayed=END.model_copy(update={"stop_reason": "end_turn", "error": None}),
    notes=["A note."],
)
FAILED = of_replay(
    RunReplayFailed, error_type="llm_timeout", message="It took too long", detail="30 minutes"
)
DELETED = of_replay(RunReplayDeleted)
EVENTS: list[Event] = [REQUESTED, ADVANCED, COMPARED, COMPLETED, FAILED, DELETED]
RUNNING_HISTORY = [REQUESTED, ADVANCED, ADVANCED]
HISTORY = [REQUESTED, ADVANCED, COMPARED, COMPLETED]
DELETED_HISTORY = [REQUESTED, FAILED, DELETED]

SUBJECTS = {
    "ReplayRun": f"agent.command.run.replay.org-1.{REPLAY}",
    "ShowModelRequest": f"agent.command.model_request.show.org-1.{STEP_ID}",
    "DeleteRunReplay": f"agent.command.run_replay.delete.org-1.{REPLAY}",
    **{
        name: f"agent.event.{topic}.org-1.{REPLAY}"
        for name, topic in (
            ("RunReplayRequested", "run_replay.requested"),
            ("RunReplayAdvanced", "run_replay.advanced"),
            ("RunReplayStepCompared", "run_replay_step.compared"),
            ("RunReplayCompleted", "run_replay.completed"),
            ("RunReplayFailed", "run_replay.failed"),
            ("RunReplayDeleted", "run_replay.deleted"),
        )
    },
}
