"""A process that dies between the summary and its record: another one begins again."""

from __future__ import annotations

from pathlib import Path

import pytest
from letta_client import Letta

from tests.e2e.asking import MODEL, SECONDS_MAX, says
from tests.scripted_model import ScriptedModelProcess
from tests.servers import HeelerInstance

POINT = "before_compaction"
SUMMARY = "We spoke of crashes."


@pytest.mark.operation("POST /v1/agents/{agent_id}/summarize")
async def test_r24_a_process_killed_in_a_compaction_loses_nothing(
    model: ScriptedModelProcess, tmp_path: Path
) -> None:
    env = {
        "OPENAI_API_BASE": model.base_url,
        "OPENAI_API_KEY": "any",
        "HEELER_FAILPOINTS": str(tmp_path),
    }
    with (
        HeelerInstance(env=env) as heeler,
        Letta(
            base_url=heeler.base_url, api_key="none", max_retries=0, timeout=SECONDS_MAX
        ) as letta,
    ):
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
        (tmp_path / POINT).touch()
        compacted = letta.agents.messages.compact(agent.id)
        assert not (tmp_path / POINT).exists(), "a process died there"
        assert (compacted.summary, compacted.num_messages_before) == (SUMMARY, 7)
        assert (await model.asked(prompt))[0] == 2, "what was not recorded is done again"
        (tmp_path / POINT).touch()
        answer = letta.agents.messages.create(agent.id, messages=says("x" * 9_000))
        assert not (tmp_path / POINT).exists()
        assert answer.stop_reason.stop_reason == "end_turn"
        after = letta.agents.messages.list(agent.id, order="asc").items
        assert after[1 : len(before)] == before[1:]
        shown = letta.agents.retrieve(agent.id).message_ids
        assert shown is not None
        assert len(shown) == 3, "system, summary, answer"
