"""An approval that nobody gives ends at its deadline (R23)."""

from __future__ import annotations

from letta_client import Letta

from libs.contracts.agent.approvals import ApprovalExpired
from services.agent.domain.runs.client_call_answers import ENDED
from tests.e2e.asking import MODEL, SECONDS_MAX, SEND, says
from tests.e2e.conftest import Fragile
from tests.e2e.test_approvals import ASK, GATED, RETRIEVE, human
from tests.servers import wait_until


@SEND
@RETRIEVE
def test_r23_an_approval_ends_at_its_deadline_also_after_a_restart(fragile: Fragile) -> None:
    heeler = fragile.heeler
    with Letta(base_url=heeler.base_url, api_key="none", timeout=SECONDS_MAX) as letta:
        blocks = [{"label": "human", "value": "Name: Ada"}]
        left = letta.agents.create(model=MODEL, memory_blocks=blocks, **GATED)
        letta.agents.messages.create(left.id, messages=says(ASK))
        heeler.kill9("agent")

        def ended() -> bool:
            history = letta.agents.messages.list(left.id).items
            returned = [
                message for message in history if message.message_type == "tool_return_message"
            ]
            return [message.tool_return for message in returned] == [ENDED[ApprovalExpired]]

        wait_until("the deadline has passed", ended, SECONDS_MAX)
        free = letta.agents.messages.create(left.id, messages=says("SAY:Free."))
        assert free.messages[-1].content == "Free."
        assert human(letta, left.id) == "Name: Ada"
