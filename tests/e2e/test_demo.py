"""The first conversation, as the README has it: no key, no network, and nothing is forgotten."""

from __future__ import annotations

from time import monotonic

import pytest
from letta_client import Letta

from tests.chosen import new_heeler
from tests.e2e.asking import SECONDS_MAX, says

FIRST_ANSWER_SECONDS_MAX = 30.0


@pytest.mark.operation("POST /v1/agents/{agent_id}/messages")
def test_what_one_tells_the_demo_is_known_after_a_restart() -> None:
    no_provider = {"OPENAI_API_KEY": "", "OPENAI_API_BASE": "", "OPENAI_BASE_URL": ""}
    begun = monotonic()
    with new_heeler(env=no_provider) as heeler:
        letta = Letta(base_url=heeler.base_url, api_key="none", timeout=SECONDS_MAX)
        agent = letta.agents.create(
            model="demo/offline", memory_blocks=[{"label": "human", "value": ""}]
        )
        told = letta.agents.messages.create(agent.id, messages=says("My cat is called Whiskers"))
        assert monotonic() - begun < FIRST_ANSWER_SECONDS_MAX, "from nothing to the first answer"
        assert [one.message_type for one in told.messages] == [
            "tool_call_message",
            "tool_return_message",
            "assistant_message",
        ]
        before = [one.to_dict() for one in letta.agents.messages.list(agent.id)]
        assert [model.handle for model in letta.models.list()] == ["demo/offline"]

        heeler.down()
        heeler.up()

        assert [one.to_dict() for one in letta.agents.messages.list(agent.id)] == before
        asked = letta.agents.messages.create(agent.id, messages=says("What is my cat called?"))
        assert "Whiskers" in str(asked.messages[-1].content)  # type: ignore[union-attr]
        letta.close()
