"""Messages are delivered to agents through outages, and followed to their ends."""

from __future__ import annotations

from typing import Any

from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.bus.ports import BusUnavailable
from libs.contracts.agent.conversations import CreateConversation, Message
from libs.contracts.agent.runs import CancelRuns, StartRun
from libs.contracts.bus_messages import (
    BUSY,
    CONFLICT,
    NOT_FOUND,
    Accepted,
    Command,
    Context,
    Rejected,
)
from libs.work.acceptance import NOT_WANTED
from libs.work.agent_runs import AgentRuns, RunProgress, WantedRun
from libs.work.deliveries import Deliveries
from tests.clock_and_ids import ManualClock
from tests.unit.given import NOW

CONTEXT = Context("sweep-1", org="org-1")
ENDED = RunProgress("completed", "end_turn")
GONE = Rejected(code=NOT_FOUND, reason="No such agent")
OUTAGE = BusUnavailable("away")

type Reply = Accepted | Rejected | BusUnavailable


class Agents(InMemoryBus):
    """The agent service: what it replies to each command, the last one for ever, and the row of
    the run as it is at each look."""

    def __init__(self, *rows: RunProgress | None, **replies: list[Reply]) -> None:
        super().__init__(InMemoryNetwork())
        self.replies, self.rows = replies, list(rows)
        self.sent: list[tuple[Command, str]] = []

    async def request(self, command: Command, context: Context, **_: Any) -> Accepted | Rejected:
        self.sent.append((command, context.message_id))
        replies = self.replies.get(type(command).__name__, [Accepted()])
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        if isinstance(reply, BusUnavailable):
            raise reply
        return reply

    async def run_progress(self, org: str, run_id: str) -> RunProgress | None:
        return self.rows.pop(0)

    def of(self, kind: type[Command]) -> list[str]:
        """The names of the commands of a kind."""
        return [name for command, name in self.sent if isinstance(command, kind)]


def deliveries(agents: Agents) -> Deliveries:
    return Deliveries(AgentRuns(agents, agents), ManualClock())  # type: ignore[arg-type]


def wanted(**fields: Any) -> WantedRun:
    message = Message(id="message-1", role="user", content="Hi", created_at=NOW)
    given = {"run_id": "run-1", "agent_id": "agent-1", "messages": [message], "created_at": NOW}
    return WantedRun(**given | fields)


async def never(_: RunProgress | None) -> bool:
    return False


async def test_a_message_is_delivered_through_outages_by_one_name() -> None:
    agents = Agents(ENDED, StartRun=[OUTAGE, Rejected(code=BUSY, reason="full"), Accepted()])
    assert await deliveries(agents).answer(wanted(), CONTEXT) == ENDED
    assert agents.of(StartRun) == ["run-1"] * 3


async def test_its_conversation_is_made_first_unless_it_is_there() -> None:
    there = Rejected(code=CONFLICT, reason="It is there")
    agents = Agents(ENDED, CreateConversation=[there])
    run = wanted(conversation_id="conv-1", new_conversation={"summary": "Of a test"})
    assert await deliveries(agents).answer(run, CONTEXT) == ENDED
    assert [type(command) for command, _ in agents.sent] == [CreateConversation, StartRun]


async def test_without_its_agent_no_run_is_asked_for() -> None:
    agents = Agents(CreateConversation=[GONE])
    run = wanted(conversation_id="conv-1", new_conversation={})
    assert await deliveries(agents).answer(run, CONTEXT) is GONE
    assert agents.of(StartRun) == []


async def test_a_run_that_nobody_wants_is_withdrawn() -> None:
    agents = Agents(RunProgress("running"))
    assert await deliveries(agents).answer(wanted(), CONTEXT, goes_on=never) is NOT_WANTED
    assert len(agents.of(CancelRuns)) == 1


async def test_one_whose_start_may_be_on_the_way_is_withdrawn_too() -> None:
    agents = Agents(StartRun=[OUTAGE])
    assert await deliveries(agents).answer(wanted(), CONTEXT, goes_on=never) is NOT_WANTED
    assert len(agents.of(CancelRuns)) == 1


async def test_a_later_attempt_withdraws_anew_what_may_have_begun_since() -> None:
    agents = Agents(CancelRuns=[OUTAGE, Accepted()])
    for sweep in ("sweep-1", "sweep-2"):
        await deliveries(agents).withdraw("agent-1", "run-1", Context(sweep, org="org-1"))
    first, again, later = agents.of(CancelRuns)
    assert first == again != later


async def test_what_is_gone_needs_no_withdrawal() -> None:
    agents = Agents(CancelRuns=[GONE])
    await deliveries(agents).withdraw("agent-1", "run-1", CONTEXT)
    assert len(agents.sent) == 1
