"""What a provider refused is not shown to it again, and the model is told so."""

from __future__ import annotations

from itertools import pairwise

import pytest

from libs.contracts.agent.compaction import ContextCleared, RetriedContentRefused
from libs.contracts.agent.conversations import Message, MessageAppended, ToolCall, Usage
from libs.contracts.agent.runs import RunAccepted, RunFailed, RunStarted
from libs.contracts.agent.steps import ModelReplied
from libs.contracts.agent.stored_to_letta_messages import text_of
from services.agent.domain.conversations.context_replacement import show_left_out
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.conversations.provider_rejected_messages import left_out_parts
from services.agent.domain.prompts.model_context import shown_messages
from tests.contract.examples import AGENT, RUN_CONFIG, SYSTEM
from tests.scripted_model import messages_validator, validator
from tests.unit.agent.anthropic_documents import body_of as anthropic_body
from tests.unit.agent.asking import ask
from tests.unit.agent.openai_documents import body_of as openai_body
from tests.unit.given import NOW, Fact, fact, given

NOTHING = Usage()
IMAGE = {"type": "image", "source": {"type": "url", "url": "https://gone.example/cat.png"}}
FIND = ToolCall(id="call_1", name="conversation_search", arguments="{}")
WHY = "The model answered 400: bad image"


def user(name: str, *parts: object) -> Message:
    content = [{"type": "text", "text": name}, *parts] if parts else name
    return Message.model_validate(
        {"id": f"message-{name}", "role": "user", "content": content, "created_at": NOW}
    )


def agent(name: str, *calls: ToolCall) -> Fact:
    said = Message(
        id=f"message-{name}", role="assistant", content=name, tool_calls=[*calls], created_at=NOW
    )
    return appended(said)


def appended(message: Message) -> Fact:
    return fact(MessageAppended, agent_id=AGENT, message=message)


def begins(name: str, *parts: object) -> list[Fact]:
    """A run whose turn it is, and its message."""
    message = user(name, *parts)
    return [*begins_with(name, message), appended(message)]


def begins_with(name: str, *messages: Message, unless_said: bool = False) -> list[Fact]:
    """A run whose turn it is, before its messages are appended."""
    run = RUN_CONFIG.model_copy(update={"id": f"run-{name}"})
    asked = fact(RunAccepted, run_id=run.id, run=run, messages=[*messages], max_steps=9,
                 request_hash="h", unless_said=unless_said)  # fmt: skip
    return [asked, fact(RunStarted, run_id=run.id, agent_id=AGENT)]


def fails(name: str, kind: str = "llm_bad_request", why: str = WHY) -> Fact:
    return fact(RunFailed, run_id=f"run-{name}", stop_reason="llm_api_error", error_type=kind,
                message=why, usage=NOTHING, step_count=0, total_duration_ns=1)  # fmt: skip


def replies(name: str, *, tries_again: bool = True) -> Fact:
    """The model answers the run; what it said follows."""
    return fact(ModelReplied, run_id=f"run-{name}", step_id="step-1", model="m", usage=NOTHING,
                finish_reason="stop", tool_calls=[], tries_again=tries_again)  # fmt: skip


BEGUN = [appended(SYSTEM)]
OLD = [appended(user("old", IMAGE)), agent("sure")]


def seen(*past: Fact) -> list[str]:
    """What the model is shown behind the system message, in words."""
    talk = given(Conversation, "conv-1", *past).aggregate.state
    window = shown_messages(talk, None)
    request = ask(*window)
    assert validator.check(openai_body(request)) is None
    claude = ask(*window, model="claude-sonnet-4-5")
    assert messages_validator.check(anthropic_body(claude)) is None
    assert window[0] == SYSTEM
    return [
        text_of(message)
        if not isinstance(message.content, list) or all("text" in part for part in message.content)  # type: ignore[operator]
        else text_of(message) + " + image"
        for message in window[1:]
    ]


def test_a_message_that_was_refused_is_replaced_by_words_that_say_why() -> None:
    history = [*BEGUN, *OLD, *begins("bad", IMAGE), fails("bad")]
    assert seen(*history, *begins("good")) == [
        "old + image",
        "sure",
        f"[A message of the user: left out here, since there was no answer to it. "
        f"The reason: {WHY}]",
        "good",
    ]
    talk = given(Conversation, "conv-1", *history).aggregate.state
    assert talk.window[-1] == user("bad", IMAGE), "what clients read stays as it was"


@pytest.mark.parametrize(
    "kind",
    ["llm_authentication", "llm_rate_limit", "llm_timeout", "llm_connection_error", "llm_error",
     "llm_provider_overloaded", "llm_not_found", "llm_insufficient_credits"],
)  # fmt: skip
def test_what_is_not_the_messages_fault_leaves_out_nothing(kind: str) -> None:
    history = [*BEGUN, *OLD, *begins("good", IMAGE), fails("good", kind)]
    assert seen(*history, *begins("again")) == ["old + image", "sure", "good + image", "again"]


def test_a_result_that_was_refused_stays_a_result() -> None:
    result = Message(id="message-r", role="tool", content="\ufffd" * 9, name=FIND.name,
                     tool_call_id=FIND.id, tool_status="success", created_at=NOW)  # fmt: skip
    history = [*BEGUN, *begins("one"), replies("one"), agent("let me see", FIND), appended(result)]
    one, call, left_out, two = seen(*history, fails("one"), *begins("two"))
    assert (one, call, two) == ("one", "let me see", "two")
    assert left_out.startswith("[The result of this call: left out here")


def test_old_attachments_go_next_and_then_everything_older() -> None:
    history = [*BEGUN, *OLD, *begins("one"), fails("one"), *begins("two"), fails("two")]
    old, sure, *notes, three = seen(*history, *begins("three"))
    assert old.startswith("old\n[An attachment: left out here")
    assert (sure, len(notes), three) == ("sure", 2, "three")
    note, four = seen(*history, *begins("three"), fails("three"), *begins("four"))
    assert note.startswith("[The older messages: left out here")
    assert four == "four"


TWICE = [*BEGUN, *OLD, *begins("one"), fails("one"), *begins("two"), fails("two")]
ANSWERED = [*TWICE, *begins("three"), replies("three"), agent("fine")]
NOTE = "[A message of the user: left out here"


def refused_again(name: str) -> Fact:
    """What was shown again is refused; the same run goes on without."""
    return fact(RetriedContentRefused, run_id=f"run-{name}", agent_id=AGENT, step_id="step-1",
                error_type="llm_bad_request", message=WHY)  # fmt: skip


def left_out(*past: Fact) -> list[int]:
    """The places of what is shown in words of ours."""
    return [place for place, text in enumerate(seen(*past)) if "left out here" in text]


def test_each_answer_has_a_part_shown_again_what_is_older_first() -> None:
    history = [*TWICE]
    counts = []
    for n in range(4):
        counts.append(left_out(*history))
        history += [*begins(f"n{n}"), replies(f"n{n}"), agent(f"a{n}")]
    assert counts == [[0, 2, 3], [2, 3], [3], []]
    assert seen(*history, *begins("new"))[:4] == ["old + image", "sure", "one", "two"]
    history += [*begins("last"), fails("last"), *begins("again")]
    assert seen(*history)[-2].startswith(NOTE), "the next refusal begins with the first step"
    assert len(left_out(*history)) == 1


def test_a_part_that_is_refused_again_keeps_no_other_part_away() -> None:
    """One message that no model takes, and a provider that refused everything for a while."""
    history = [*BEGUN, *OLD]
    for name in ("poison", "one", "two"):
        history += [*begins(name), fails(name)]
    note, *_ = seen(*history, *begins("next"))
    assert note.startswith("[The older messages")
    tries, away = [], 0
    for n in range(1, 200):
        shown = seen(*history, *begins(f"n{n}"))
        history += begins(f"n{n}")
        if "poison" in shown:
            history += [refused_again(f"n{n}")]
            tries.append(n)
        away += "one" not in shown
        history += [replies(f"n{n}")]
    assert [after - before for before, after in pairwise(tries)] == [2, 4, 8, 16, 32, 64, 64]
    assert away < 5
    assert [text for text in seen(*history)[:5] if not text.startswith("[")] == [
        "old + image", "sure", "one", "two",
    ]  # fmt: skip


def test_answers_of_before_there_were_trials_try_nothing() -> None:
    """As they stand in old logs: what was left out then stays so until the next answer."""
    old = [*TWICE, *begins("three"), replies("three", tries_again=False), agent("fine")]
    assert left_out(*old) == [0, 2, 3]
    assert left_out(*old, *begins("four"), replies("four")) == [2, 3]


def test_what_leaves_the_window_is_tried_no_more() -> None:
    history = [*ANSWERED]
    for n in range(5):
        history += [*begins(f"n{n}"), refused_again(f"n{n}"), replies(f"n{n}")]
    talk = given(Conversation, "conv-1", *history).aggregate.state
    assert talk.trial.parts
    ids = [message.id for message in talk.window[1:]]
    gone = given(Conversation, "conv-1", *history, fact(ContextCleared, evicted=ids)).aggregate
    assert (gone.state.trial.parts, gone.state.trial.is_running) == ({}, False)


def test_a_retry_that_nobody_made_changes_nothing_and_is_shown_what_it_is_about() -> None:
    history = [*BEGUN, *OLD, *begins("one"), fails("one")]
    before = seen(*history, *begins("next"))
    for n in range(9):
        history += begins_with(f"retry-{n}", user("one"), unless_said=True)
        assert seen(*history) == ["old + image", "sure", "one"]
        history += [fails(f"retry-{n}")]
    assert seen(*history, *begins("next")) == before
    answered = [*history, *begins("next"), replies("next")]
    assert "one" in seen(*answered), "such retries do not make it wait longer"


def test_a_run_that_brings_nothing_leaves_out_nothing_more() -> None:
    history = [*BEGUN, *OLD, *begins("one"), fails("one")]
    before = seen(*history, *begins("next"))
    for n in range(9):
        history += [*begins_with(f"empty-{n}"), fails(f"empty-{n}")]
    assert seen(*history, *begins("next")) == before


def test_what_is_left_out_is_named_and_shown_again_at_once() -> None:
    conversation = given(Conversation, "conv-1", *TWICE).aggregate
    parts = left_out_parts(conversation.state.window, conversation.state.omitted)
    assert parts == [
        {"what": "message", "message_id": "message-one", "reason": WHY},
        {"what": "message", "message_id": "message-two", "reason": WHY},
        {"what": "attachments_before", "message_id": None, "reason": WHY},
    ]
    show_left_out(conversation, at=NOW)
    assert not conversation.state.omitted
    assert [text_of(message) for message in shown_messages(conversation.state, None)[1:]] == [
        "old", "sure", "one", "two",
    ]  # fmt: skip
    version = conversation.version
    show_left_out(conversation, at=NOW)
    assert conversation.version == version, "nothing is left out any more"


def test_settings_that_are_to_blame_cost_no_memory() -> None:
    history = [*BEGUN, *OLD]
    for name in ("one", "two", "three", "four"):
        history += [*begins(name), fails(name)]
    assert seen(*history, *begins("five")) == [
        "old + image", "sure", "one", "two", "three", "four", "five",
    ]  # fmt: skip


def test_a_conversation_that_grew_too_long_goes_on_with_its_newer_half() -> None:
    long = [agent(f"{n} " + "x" * 1_000) for n in range(10)]
    history = [*BEGUN, *long, *begins("hi"), fails("hi", "context_window_exceeded", "too long")]
    note, *kept, hi, again = seen(*history, *begins("again"))
    assert note.startswith("[The older messages: left out here")
    assert [text.partition(" ")[0] for text in kept] == ["5", "6", "7", "8", "9"]
    assert (hi, again) == ("hi", "again"), "it was no fault of the message"


def test_a_message_that_is_too_long_itself_is_left_out_alone() -> None:
    history = [*BEGUN, *OLD, *begins("x" * 5_000)]
    history += [fails("x" * 5_000, "context_window_exceeded", "too long")]
    old, sure, note, again = seen(*history, *begins("again"))
    assert (old, sure, again) == ("old + image", "sure", "again")
    assert "too long" in note


def test_a_snapshot_knows_what_is_left_out() -> None:
    past = [*BEGUN, *OLD, *begins("bad"), fails("bad")]
    state = given(Conversation, "conv-1", *past).aggregate.state
    stored = state.model_dump_json()
    again = Conversation.blank("conv-1", version=9, state=type(state).model_validate_json(stored))
    assert shown_messages(again.state, None) == shown_messages(state, None)
    assert again.state.refusals == state.refusals
