"""What a fork takes over of its source: whole steps, under ids of its own."""

from __future__ import annotations

import pytest

from libs.contracts.agent.conversations import Message, ToolCall
from libs.contracts.bus_messages import Rejected
from services.agent.domain.conversations import conversation_lifecycle
from services.agent.domain.conversations.conversation_lifecycle import forked_messages
from services.agent.domain.conversations.conversation_state import ConversationState
from tests.contract.examples import BESIDE, SYSTEM, message


def call(name: str) -> ToolCall:
    return ToolCall(id=name, name="keep", arguments="{}")


def result(number: int, name: str) -> Message:
    return message(number, role="tool", content="kept", tool_call_id=name, tool_status="success")


ASKED = message(2, role="user", content="Keep two", otid="otid-2")
CALLS = message(3, role="assistant", content="Both.", tool_calls=[call("a"), call("b")])
FIRST, SECOND = result(4, "a"), result(5, "b")
SAID = message(6, role="assistant", content="Done.")
WINDOW = [SYSTEM, ASKED, CALLS, FIRST, SECOND, SAID]


def forked(window: list[Message], until: str | None = None) -> list[Message] | Rejected:
    return forked_messages(ConversationState(window=window), BESIDE, until)


def same(copies: list[Message] | Rejected, originals: list[Message]) -> bool:
    """Whether these are copies of those, under other ids."""
    assert isinstance(copies, list)
    assert not {copy.id for copy in copies} & {original.id for original in originals}
    plain = [original.model_copy(update={"id": ""}) for original in originals]
    return [copy.model_copy(update={"id": ""}) for copy in copies] == plain


def test_a_fork_has_everything_but_the_system_message() -> None:
    assert same(forked(WINDOW), WINDOW[1:])


def test_the_same_fork_has_the_same_ids_and_another_one_others() -> None:
    assert forked(WINDOW) == forked(WINDOW)
    other = forked_messages(ConversationState(window=WINDOW), "conv-other", None)
    assert isinstance(other, list)
    ours = forked(WINDOW)
    assert isinstance(ours, list)
    assert not {forked_message.id for forked_message in other} & {
        forked_message.id for forked_message in ours
    }


@pytest.mark.parametrize(
    ("until", "taken"),
    [(ASKED, 1), (CALLS, 4), (FIRST, 4), (SECOND, 4), (SAID, 5)],
    ids=["a question", "calls", "the first result", "the last result", "the end"],
)
def test_a_fork_ends_at_a_message_or_behind_the_results_of_its_step(
    until: Message, taken: int
) -> None:
    assert same(forked(WINDOW, until.id), WINDOW[1 : 1 + taken])


@pytest.mark.parametrize("results", [0, 1])
def test_a_step_that_waits_for_a_result_stays_behind(results: int) -> None:
    window = WINDOW[: 3 + results]
    assert same(forked(window), [ASKED])
    assert same(forked(window, CALLS.id), [ASKED])


def test_calls_of_the_same_id_in_an_earlier_step_are_not_taken_for_these() -> None:
    again = message(7, role="assistant", tool_calls=[call("a")])
    assert same(forked([*WINDOW, again]), WINDOW[1:])


@pytest.mark.parametrize("name", [SYSTEM.id, "message-nobody"])
def test_a_message_that_is_not_there_is_named(name: str) -> None:
    refused = forked(WINDOW, name)
    assert isinstance(refused, Rejected)
    assert refused.code == "invalid"
    assert name in refused.reason


def test_a_context_too_large_for_a_commit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation_lifecycle, "FORKED_MESSAGES_MAX", 4)
    refused = forked(WINDOW)
    assert isinstance(refused, Rejected)
    assert (refused.code, "message_id" in refused.reason) == ("too_large", True)
    assert same(forked(WINDOW, ASKED.id), [ASKED])


def test_of_an_empty_conversation_there_is_nothing_to_take() -> None:
    assert forked([]) == forked([SYSTEM]) == []
