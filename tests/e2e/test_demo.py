"""The first conversation, as the README has it: no key, no network, and nothing is forgotten."""

from __future__ import annotations

from contextlib import ExitStack
from time import monotonic

import pytest
from letta_client import Letta, NotFoundError
from letta_client.types import AgentState
from letta_client.types.agents import LettaResponse

from tests.chosen import new_heeler
from tests.e2e.asking import NO_PROVIDER, SECONDS_MAX, says
from tests.servers import HeelerInstance
from tests.waiting import in_time

FIRST_ANSWER_SECONDS_MAX = 30.0
KEY = {"idempotency-key": "the first message"}


@pytest.mark.timeout(900)
@pytest.mark.operation("POST /v1/agents/{agent_id}/messages")
async def test_what_one_tells_the_demo_is_known_after_a_restart() -> None:
    with ExitStack() as stack:
        heeler: HeelerInstance
        letta: Letta
        agent: AgentState
        told: LettaResponse

        def first_answer() -> float:
            """From nothing."""
            nonlocal heeler, letta, agent, told
            stack.close()
            began = monotonic()
            heeler = stack.enter_context(new_heeler(env=NO_PROVIDER))
            letta = stack.enter_context(
                Letta(base_url=heeler.base_url, api_key="none", timeout=SECONDS_MAX)
            )
            agent = letta.agents.create(
                model="demo/offline", memory_blocks=[{"label": "human", "value": ""}]
            )
            said = says("My cat is called Whiskers")
            told = letta.agents.messages.create(agent.id, messages=said, extra_headers=KEY)
            return monotonic() - began

        await in_time("the first answer", first_answer, FIRST_ANSWER_SECONDS_MAX)
        assert [message.message_type for message in told.messages] == [
            "tool_call_message",
            "tool_return_message",
            "assistant_message",
        ]
        before = [message.to_dict() for message in letta.agents.messages.list(agent.id)]
        assert [model.handle for model in letta.models.list()] == ["demo/offline"]
        for model, variable in (
            ("anthropic/claude-haiku-4-5", "ANTHROPIC_API_KEY"),
            ("openai/gpt-4o-mini", "OPENAI_API_KEY"),
            ("ollama/llama3", "OPENAI_API_BASE=http://localhost:11434/v1"),
        ):
            with pytest.raises(NotFoundError, match=variable):
                letta.agents.create(model=model)

        kept = letta.agents.retrieve(agent.id).to_dict()
        heeler.down()
        heeler.up()

        assert letta.agents.retrieve(agent.id).to_dict() == kept
        assert [message.to_dict() for message in letta.agents.messages.list(agent.id)] == before
        said = says("My cat is called Whiskers")
        again = letta.agents.messages.create(agent.id, messages=said, extra_headers=KEY)
        assert again.to_dict() == told.to_dict(), "the same request under its key"
        assert [message.to_dict() for message in letta.agents.messages.list(agent.id)] == before
        asked = letta.agents.messages.create(agent.id, messages=says("What is my cat called?"))
        assert "Whiskers" in str(asked.messages[-1].content)  # type: ignore[union-attr]
