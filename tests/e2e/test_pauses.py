"""LOOP-12: a pause of an agent, which began in `test_base_tools.py` and ends by itself. Only who
runs this file alone waits for it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import httpx
import pytest
from letta_client import Letta

from tests.e2e.asking import CANCEL, ask
from tests.e2e.conftest import PAUSE, PAUSING, NewAgent
from tests.waiting import wait_for

RUNS = pytest.mark.operation("GET /v1/runs/")


@CANCEL
@RUNS
def test_the_cancellation_of_all_runs_ends_a_pause(
    paused: object, letta: Letta, new_agent: NewAgent, http: httpx.Client
) -> None:
    agent = new_agent(**PAUSING)
    ask(letta, agent.id, PAUSE)
    path = f"/v1/agents/{agent.id}/messages/cancel"
    first, second = http.post(path), http.post(path)
    assert (first.status_code, first.json()) == (200, {})
    assert second.status_code == 409, "there is nothing left to cancel"


@RUNS
async def test_when_it_is_over_a_run_begins_by_itself(
    paused: tuple[str, datetime], letta: Letta
) -> None:
    agent_id, since = paused

    def follows() -> Any:
        runs = letta.runs.list(agent_id=agent_id).items
        later = [run for run in runs if run.metadata == {"run_type": "heartbeat"}]
        first = later[-1] if later else None  # it may pause again
        return first if first and first.status == "completed" else None

    run = await wait_for("the run that follows the pause", follows, 75.0)
    waited = (run.created_at - since).total_seconds()
    assert 59 <= waited <= 70
    listed = letta.agents.messages.list(agent_id, order="asc", limit=100).items
    mine = [message for message in listed if message.run_id == run.id]
    assert mine[0].message_type == "user_message"
    assert mine[0].content == "[Automatic message] Your pause of 1 min is over."
    assert len(mine) > 1, "the agent answers itself"
    letta.agents.messages.cancel(agent_id)
