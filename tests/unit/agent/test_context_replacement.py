"""Other messages as what models are shown: a bad compaction is undone, and nothing is erased."""

from __future__ import annotations

import pytest

from libs.contracts.agent.compaction import ContextReplaced, ReplaceContext
from libs.contracts.agent.conversations import Message, ToolCall
from libs.contracts.agent.stored_to_letta_messages import text_of
from libs.contracts.bus_messages import CONFLICT, INVALID, TOO_LARGE, Accepted, Rejected
from services.agent.domain.conversations import context_replacement
from services.agent.domain.conversations.context_replacement import whole_calls
from services.agent.domain.runs.step_results import ModelReply
from tests.contract.examples import AGENT, message
from tests.unit.agent.compaction_chat import SUMMARY, Chat, words
from tests.unit.agent.world import World

ORIGIN = "conv-1.7"


@pytest.fixture
def chat() -> Chat:
    return Chat(World())


async def replace(chat: Chat, ids: list[str], name: str = "replace") -> Accepted | Rejected:
    command = ReplaceContext(agent_id=AGENT, message_ids=ids, restored_from=ORIGIN)
    return await chat.process.tell(command, name)


def replaced(chat: Chat) -> list[ContextReplaced]:
    return [event for event in chat.world.events() if isinstance(event, ContextReplaced)]


async def test_a_compaction_is_undone(chat: Chat) -> None:
    await chat.begin(window=60_000, mode="all")
    await chat.talk(3, 100)
    before = list(chat.window)
    await chat.compact(SUMMARY)
    summary = chat.window[1]
    assert summary.summary is not None

    done = await replace(chat, [message.id for message in before])

    assert isinstance(done, Accepted)
    assert [message.id for message in chat.window] == [message.id for message in before]
    assert chat.window[1:] == before[1:]
    chat.check()
    [event] = replaced(chat)
    assert event.restored_from == ORIGIN
    assert event.evicted == [summary.id]
    await chat.say("what now?", words("this"))
    shown = [text_of(asked) for asked in chat.asked[-1].messages]
    assert [text for text in shown if text.startswith("question")] == [
        text_of(said) for said in before if text_of(said).startswith("question")
    ]
    assert len(chat.readable()) == 8, "all of it stays readable"


async def test_a_summary_can_be_shown_again_behind_the_system_message(chat: Chat) -> None:
    await chat.begin(window=60_000, mode="all")
    await chat.talk(3, 100)
    before = list(chat.window)
    await chat.compact(SUMMARY)
    await chat.say("and then?", words("that"))
    after = [message.id for message in chat.window]
    await replace(chat, [message.id for message in before])

    await replace(chat, after[::-1], "again")

    assert [message.id for message in chat.window] == after
    chat.check()


async def test_the_same_context_again_records_nothing(chat: Chat) -> None:
    await chat.begin()
    await chat.say("hello", words("Hi"))
    ids = [message.id for message in chat.window]

    assert isinstance(await replace(chat, ids), Accepted)
    assert isinstance(await replace(chat, ids[:1], "once"), Accepted)
    assert isinstance(await replace(chat, ids[:1], "twice"), Accepted)

    assert len(replaced(chat)) == 1
    chat.check()


async def test_it_is_refused_while_a_run_is_active(chat: Chat) -> None:
    await chat.begin()
    await chat.say("hello", words("Hi"))
    ids = [message.id for message in chat.window]
    seen: list[Accepted | Rejected] = []

    async def answers_meanwhile() -> ModelReply:
        seen.append(await replace(chat, ids))
        return words("Done")

    await chat.say("look", answers_meanwhile)

    [refused] = seen
    assert isinstance(refused, Rejected)
    assert refused.code == CONFLICT
    assert replaced(chat) == []


async def test_what_is_not_there_is_named_and_what_is_too_much_is_refused(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    await chat.begin()
    unknown = await replace(chat, ["message-of-somebody"])
    assert isinstance(unknown, Rejected)
    assert unknown.code == INVALID
    assert "message-of-somebody" in unknown.reason

    monkeypatch.setattr(context_replacement, "CONTEXT_MESSAGES_MAX", 1)
    too_many = await replace(chat, ["a", "b"], "too many")
    assert isinstance(too_many, Rejected)
    assert too_many.code == TOO_LARGE


def call(*names: str) -> Message:
    calls = [ToolCall(id=name, name="keep", arguments="{}") for name in names]
    return message(3, role="assistant", content=None, tool_calls=calls)


def result(name: str) -> Message:
    return message(4, role="tool", content="kept", tool_call_id=name, tool_status="success")


SAID = message(2, role="user", content="Keep two")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([SAID, call("a"), result("a")], [0, 1, 2]),
        ([SAID, call("a", "b"), result("a"), result("b")], [0, 1, 2, 3]),
        ([SAID, call("a", "b"), result("a"), SAID], [0, 3]),
        ([SAID, call("a")], [0]),
        ([result("a"), SAID], [1]),
        ([call("a"), SAID, result("a")], [1]),
        ([call("a"), result("b"), result("a")], [0, 2]),
    ],
    ids=[
        *("a call and its result", "two calls", "a result is missing", "a call alone"),
        *("a result alone", "a result too late", "the result of another call"),
    ],
)
def test_calls_and_results_come_together_or_not_at_all(
    given: list[Message], kept: list[int]
) -> None:
    assert whole_calls(given) == [given[place] for place in kept]
