"""Two replicas count each run of an agent once, also where one of them is killed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from letta_client import Letta

from libs.contracts.groups.sleeptime import review_run
from tests.e2e.asking import EMBEDDING, MODEL, SECONDS_MAX, says, unique
from tests.e2e.test_sleeptime import group_of, reviews
from tests.scripted_model import ScriptedModelProcess
from tests.servers import HeelerInstance
from tests.waiting import wait_for

RUNS = 12


@pytest.mark.operation("POST /v1/agents/{agent_id}/messages/async")
async def test_each_second_run_is_reviewed_once_whichever_process_dies(
    model: ScriptedModelProcess,
) -> None:
    env = {
        "HEELER_PROCESSES": "one",
        "HEELER_REPLICAS": "2",
        "OPENAI_API_BASE": model.base_url,
        "OPENAI_API_KEY": "any",
    }
    with (
        HeelerInstance(env=env) as pair,
        Letta(base_url=pair.base_url, api_key="none", max_retries=4, timeout=SECONDS_MAX) as letta,
    ):
        agent = letta.agents.create(
            name=unique("pair"), model=MODEL, embedding=EMBEDDING, enable_sleeptime=True
        )
        group_id, [sleeper] = group_of(agent)
        config = {"manager_type": "sleeptime", "sleeptime_agent_frequency": 2}
        letta.patch(f"/v1/groups/{group_id}", body={"manager_config": config}, cast_to=object)
        run_ids = [
            letta.agents.messages.create_async(agent.id, messages=says(f"Number {number}")).id
            for number in range(RUNS)
        ]
        killed = await asyncio.to_thread(pair.kill9, "services")
        due = [review_run(group_id, run_id, sleeper) for run_id in run_ids[::2]]

        def have_ended() -> bool:
            found = reviews(letta, sleeper)
            return {run.id for run in found} >= set(due) and all(
                run.status == "completed" for run in found
            )

        await wait_for("all reviews", have_ended, seconds_max=90.0)
        assert [run.id for run in reviews(letta, sleeper)] == due[::-1]
        await asyncio.to_thread(pair.wait_restarted, "services", killed)

        def counted() -> list[tuple[Any, ...]]:
            return pair.psql(
                "select count(*), count(distinct payload->>'run_id') from groups.events"
                " where topic = 'group.run_counted'"
            )

        # The last run is reviewed by nobody, and so may be counted after the last review.
        await wait_for("all runs are counted", lambda: counted()[0][1] == RUNS, seconds_max=90.0)
        assert counted() == [(RUNS, RUNS)]
