"""A process that dies between the summary and its record: another one begins again."""

from __future__ import annotations

import pytest
from letta_client import Letta

from tests.e2e.asking import MODEL, SECONDS_MAX, says
from tests.e2e.conftest import Fragile
from tests.scripted_model import ScriptedModelProcess

POINT = "before_compaction"
SUMMARY = "We spoke of crashes."


@pytest.mark.operation("POST /v1/agents/{agent_id}/summarize")
async def test_r24_a_process_killed_in_a_compaction_loses_nothing(
    fragile: Fragile, model: ScriptedModelProcess
) -> None:
    point = fragile.failpoints / POINT
    with Letta(
        base_url=fragile.heeler.base_url, api_key="none", max_retries=0, timeout=SECONDS_MAX
    ) as letta:
        prompt = f"SAY:{SUMMARY}"
        agent = letta.agents.create(
            model=MODEL,
            system="Be kind.",
            include_base_tools=False,
            context_window_limit=2_000,
            compaction_settings={"mode": "self_compact_all", "prompt": prompt, "model": MODEL},
        )
        for number in range(3):
            letta.agents.messages.create(agent.id, messages=says(f"question {number}"))
        before = letta.agents.messages.list(agent.id, order="asc").items
        point.touch()
        compacted = letta.agents.messages.compact(agent.id)
        assert not point.exists(), "a process died there"
        assert (compacted.summary, compacted.num_messages_before) == (SUMMARY, 7)
        assert (await model.asked(prompt))[0] == 2, "what was not recorded is done again"
        point.touch()
        answer = letta.agents.messages.create(agent.id, messages=says("x" * 9_000))
        assert not point.exists()
        assert answer.stop_reason.stop_reason == "end_turn"
        after = letta.agents.messages.list(agent.id, order="asc").items
        assert after[1 : len(before)] == before[1:]
        shown = letta.agents.retrieve(agent.id).message_ids
        assert shown is not None
        assert len(shown) == 3, "system, summary, answer"
