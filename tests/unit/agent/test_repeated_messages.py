"""A run that is started again for the same messages does not say them a second time."""

from __future__ import annotations

import pytest

from libs.contracts.agent.conversations import Message, ToolCall
from libs.contracts.agent.runs import RunAccepted
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.runs.run_progress import start_next
from tests.contract.examples import RUN_CONFIG
from tests.unit.agent.test_omissions import (
    BEGUN,
    FIND,
    agent,
    appended,
    begins,
    fails,
    replies,
    user,
)
from tests.unit.given import NOW, Fact, fact, given

OTID = "6d7a9c1e-0000-4000-8000-000000000001"
FAILED = [*BEGUN, *begins("ring"), fails("ring", "llm_timeout")]
FAILED[3] = appended(user("ring").model_copy(update={"otid": OTID}))
RESULT = Message(id="message-r", role="tool", content="3", name=FIND.name, tool_call_id=FIND.id,
                 tool_status="success", created_at=NOW)  # fmt: skip
IN_A_TOOL = [*FAILED[:-1], replies("ring"), agent("", FIND), appended(RESULT), FAILED[-1]]


def said_by_another_try(past: list[Fact], content: str = "ring", *, repeats: bool = True) -> int:
    """How many messages another run for the same message says."""
    run = RUN_CONFIG.model_copy(update={"id": "run-again"})
    message = Message(id="message-again", role="user", content=content, created_at=NOW, otid=OTID)
    accepted = fact(RunAccepted, run_id=run.id, run=run, messages=[message], max_steps=9,
                    request_hash="h", unless_said=repeats)  # fmt: skip
    conversation = given(Conversation, "conv-1", *past, accepted).aggregate
    before = len(conversation.state.window)
    start_next(conversation, at=NOW)
    assert conversation.state.active_run is not None
    assert conversation.state.active_run.run.id == "run-again"
    return len(conversation.state.window) - before


REFUSED = [*FAILED[:-1], fails("ring", "llm_bad_request")]


@pytest.mark.parametrize(
    "past", [FAILED, IN_A_TOOL, REFUSED], ids=["at once", "behind a tool", "after a refusal"]
)
def test_a_message_that_waits_for_its_answer_is_not_said_again(past: list[Fact]) -> None:
    assert said_by_another_try(past) == 0


def test_a_message_is_said_again_by_a_client_under_the_same_otid() -> None:
    assert said_by_another_try(FAILED, repeats=False) == 1


@pytest.mark.parametrize(
    ("past", "content"),
    [
        (BEGUN, "ring"),
        (FAILED, "ring twice"),
        ([*FAILED[:-1], replies("ring"), agent("Rang"), FAILED[-1]], "ring"),
    ],
    ids=["not said yet", "changed since", "answered"],
)
def test_what_the_model_would_not_answer_otherwise_is_said(past: list[Fact], content: str) -> None:
    assert said_by_another_try(past, content) == 1


SEND = ToolCall(id="call_s", name="send_message", arguments='{"message": "hello you"}')
SENT = Message(id="message-s", role="tool", content="None", name=SEND.name, tool_call_id=SEND.id,
               tool_status="success", created_at=NOW)  # fmt: skip


def test_a_message_is_said_again_after_an_agent_that_speaks_by_tools_went_on_with_others() -> None:
    past = [*FAILED, *begins("hi"), replies("hi"), agent("", SEND), appended(SENT)]
    assert said_by_another_try([*past, fails("hi", "x")]) == 1
