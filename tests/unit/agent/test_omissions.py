"""What a provider refused is not shown to it again, and the model is told so."""

from __future__ import annotations

import pytest

from libs.contracts.agent.conversations import Message, MessageAppended, ToolCall, Usage
from libs.contracts.agent.runs import RunAccepted, RunFailed, RunStarted
from libs.contracts.agent.steps import ModelReplied
from libs.contracts.agent.stored_to_letta_messages import text_of
from services.agent.adapters.models.anthropic_request import body_of as anthropic_body
from services.agent.adapters.models.openai_request import body_of as openai_body
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.prompts.model_context import shown_messages
from tests.contract.examples import AGENT, RUN_CONFIG, SYSTEM
from tests.scripted_model import messages_validator, validator
from tests.unit.agent.asking import ask
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
    run, message = RUN_CONFIG.model_copy(update={"id": f"run-{name}"}), user(name, *parts)
    asked = fact(RunAccepted, run_id=run.id, run=run, messages=[message], max_steps=9,
                 request_hash="h")  # fmt: skip
    return [asked, fact(RunStarted, run_id=run.id, agent_id=AGENT), appended(message)]


def fails(name: str, kind: str = "llm_bad_request", why: str = WHY) -> Fact:
    return fact(RunFailed, run_id=f"run-{name}", stop_reason="llm_api_error", error_type=kind,
                message=why, usage=NOTHING, step_count=0, total_duration_ns=1)  # fmt: skip


def replies(name: str) -> Fact:
    """The model answers the run; what it said follows."""
    return fact(ModelReplied, run_id=f"run-{name}", step_id="step-1", model="m", usage=NOTHING,
                finish_reason="stop", tool_calls=[])  # fmt: skip


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


def test_an_answer_settles_what_is_left_out() -> None:
    history = [*BEGUN, *OLD, *begins("one"), fails("one"), *begins("two"), fails("two")]
    history += [*begins("three"), replies("three"), agent("fine")]
    old, *_, three, fine, image = seen(*history, *begins("new", IMAGE))
    assert (three, fine, image) == ("three", "fine", "new + image"), "what is new is shown"
    assert "An attachment" in old
    again = seen(*history, *begins("new", IMAGE), fails("new"), *begins("last"))
    assert again[:-2] == [old, *seen(*history)[1:]], "the next refusal begins with the first step"
    assert again[-2].startswith("[A message of the user")


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
