"""What hurt the users of the genuine server, one test for each pain: none of it happens here.

`FakeModel` refuses what a strict provider refuses, so each answer also proves its context.
"""

from __future__ import annotations

import pytest

from libs.contracts.agent.approvals import ApprovalCancelled, ApprovalExpired
from libs.contracts.agent.conversations import Message, ToolCall
from libs.contracts.agent.runs import CancelRuns
from libs.contracts.agent.stored_to_letta_messages import text_of
from libs.contracts.bus_messages import PENDING_APPROVAL, Accepted, Rejected
from services.agent.domain.conversations.active_run import INTERRUPTED
from services.agent.domain.runs.client_call_answers import ENDED
from services.agent.domain.runs.step_results import ModelReply
from services.agent.settings import APPROVAL_SECONDS_MAX
from tests.contract.examples import AGENT
from tests.unit.agent.approvals import KEEP as GATED
from tests.unit.agent.approvals import approved, asked, results, run_end
from tests.unit.agent.compaction_chat import BROKEN, MODES, SUMMARY, USAGE, Chat, summarises, words
from tests.unit.agent.driven_runs import KEEP, TEA, frozen, with_block
from tests.unit.agent.model_replies import calls
from tests.unit.agent.world import Answer, World


@pytest.fixture
def chat() -> Chat:
    return Chat(World())


async def test_a_crash_in_mid_call_leaves_no_unpaired_message(world: World) -> None:
    """Pain 1: a crash in a tool call left a call without its result, and every later run failed."""
    await with_block(world)
    stand_still, reached, let_go = frozen()
    dying = world.process("p-1", calls(KEEP, TEA))
    world.build_tool(dying, stand_still)
    await dying.say("run-1")
    await reached.wait()
    world.lease_expires()

    heir = world.process("p-2", words("It may have failed."), words("Yes"))
    world.build_tool(heir)
    await heir.drivers.sweep()
    await heir.idle()
    let_go.set()
    await dying.idle()
    await heir.say("run-2")
    await heir.idle()

    assert [world.row("runs", run_id)["status"] for run_id in ("run-1", "run-2")] == [
        "completed"
    ] * 2
    first, later = heir.model.asked
    assert unpaired(first.messages) == unpaired(later.messages) == set()
    assert INTERRUPTED in [message.content for message in later.messages if message.role == "tool"]


@pytest.mark.parametrize("mode", MODES)
async def test_a_summary_never_parts_a_call_from_its_result(chat: Chat, mode: str) -> None:
    """Pain 2: the summariser cut between a call and its result."""
    await chat.begin(window=1_500, mode=mode)
    look = {"name": "conversation_search"}

    for number in range(30):
        pair = [
            ToolCall(id=f"call_{number}_{which}", arguments=f'{{"query":"{"q" * 150}"}}', **look)
            for which in range(2)
        ]
        turns = [ModelReply("", pair, "tool_calls", USAGE), words("a" * (40 * number % 300))]

        async def answered(turns: list[ModelReply] = turns) -> ModelReply:
            return SUMMARY if summarises(chat.asked[-1]) else turns.pop(0)

        await chat.say(f"question {number}", *[answered] * 8)
        chat.process.model.turns.clear()
        assert chat.run()["status"] == "completed"
        assert unpaired(chat.window) == set()
        assert not [found for request in chat.asked if (found := unpaired(request.messages))]

    assert len(chat.compactions) > 3, "it was cut in many places"


async def test_a_cancel_leaves_no_approval_pending(world: World) -> None:
    """Pain 3: after a cancel the approval was still pending, and everything a 409 for ever."""
    process = await asked(world, GATED)
    refused = await process.say("run-2")
    assert isinstance(refused, Rejected)
    assert refused.code == PENDING_APPROVAL

    await process.tell(CancelRuns(agent_id=AGENT), "cancel")

    assert [result[1:] for result in await results(process)] == [
        ("error", ENDED[ApprovalCancelled])
    ]
    assert world.schema.rows("approvals") == []
    assert isinstance(await process.say("run-3"), Accepted)
    await process.idle()
    assert run_end(world, "run-3") == ("completed", "end_turn")


async def test_an_approval_expires_and_an_answer_with_a_wrong_id_is_told_so(world: World) -> None:
    """Pain 4: pending approvals never expired, and recovering from one used a wrong id."""
    process = await asked(world, GATED)
    wrong = await process.answer("run-2", approved(GATED.model_copy(update={"id": "call_9"})))
    assert isinstance(wrong, Rejected)
    assert "call_9" in wrong.reason
    assert GATED.id in wrong.reason, "which calls wait is said, so that one can recover"
    assert world.schema.rows("approvals"), "a wrong answer answers nothing"

    world.clock.seconds += APPROVAL_SECONDS_MAX + 1
    await process.handlers.approvals.sweep()

    assert [result[1:] for result in await results(process)] == [("error", ENDED[ApprovalExpired])]
    assert isinstance(await process.say("run-3"), Accepted)
    await process.idle()
    assert run_end(world, "run-3") == ("completed", "end_turn")


@pytest.mark.parametrize("mode", MODES)
async def test_an_agent_is_reachable_whose_first_step_would_overflow(chat: Chat, mode: str) -> None:
    """Pain 5: compaction came after a finished step only, so none ever finished."""
    await chat.begin(mode=mode)
    await chat.say("hello", words())

    await chat.say("x" * 40_000, SUMMARY, words("That is long."))

    assert chat.run()["status"] == "completed"
    assert len(chat.compactions) == 1
    assert chat.asked[-1].messages[-1].role == "user"
    await chat.say("and now?", words())
    assert chat.run()["status"] == "completed"


@pytest.mark.parametrize("mode", MODES)
async def test_an_overflow_is_compacted_and_clears_no_history(chat: Chat, mode: str) -> None:
    """Pain 6: an overflow was not compacted, or the history was cleared and an assertion failed."""
    await chat.begin(mode=mode)

    async def answered() -> Answer:
        return BROKEN if summarises(chat.asked[-1]) else words("a" * 400)

    said = [f"{number} " + "q" * 400 for number in range(20)]
    for text in said:
        await chat.say(text, *[answered] * 4)
        chat.process.model.turns.clear()
        assert chat.run()["status"] == "completed"

    assert chat.compactions
    assert [text for text in chat.readable() if text in said] == said, "nothing is gone"
    assert said[-1] in [text_of(message) for message in chat.window]
    chat.check()


def unpaired(messages: list[Message]) -> set[str]:
    """The calls without a result right behind them, and the results without a call."""
    waiting: list[str] = []
    found: set[str] = set()
    for message in messages:
        if message.role == "tool":
            known = message.tool_call_id in waiting
            waiting = [call for call in waiting if call != message.tool_call_id]
            found |= set() if known else {str(message.tool_call_id)}
        else:
            found |= set(waiting)
            waiting = [call.id for call in message.tool_calls]
    return found | set(waiting)
