"""Messages that are written down once for a model: nothing else is shown than without that."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from libs.contracts.conversation import Message
from services.agent.adapters.models.openai_request import body_of, content_of, rendered
from services.agent.adapters.models.rendered_messages import ENTRY_BYTES, RenderedMessages
from tests.unit.agent.asking import ask

AT = datetime(2026, 1, 1, tzinfo=UTC)
SYSTEM = Message(id="message-0", role="system", content="You are Sam.", created_at=AT)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.lists(st.lists(WORDS, max_size=6), max_size=5))
def test_a_request_is_the_same_whatever_is_kept_of_earlier_ones(
    requests: list[list[str]],
) -> None:
    kept = RenderedMessages(rendered, bytes_max=2 * ENTRY_BYTES)
    for texts in requests:
        request = ask(SYSTEM, *(user(number, text) for number, text in enumerate(texts)))
        assert json.loads(content_of(request, kept)) == body_of(request)
        assert kept.bytes <= kept.bytes_max


def user(number: int, text: str) -> Message:
    return Message(id=f"message-{number}", role="user", content=text, created_at=AT)


def test_what_is_kept_is_used_for_the_very_message_only() -> None:
    made: list[Message] = []

    def render(message: Message) -> bytes:
        made.append(message)
        return str(message.content).encode()

    kept = RenderedMessages(render)
    first = user(1, "Hi")
    changed = first.model_copy(update={"content": "Bye"})
    assert [kept.of(first), kept.of(first), kept.of(changed)] == [b"Hi", b"Hi", b"Bye"]
    assert [kept.of(changed), kept.of(first)] == [b"Bye", b"Hi"]
    assert made == [first, changed, first]
    assert kept.bytes == ENTRY_BYTES + len("Hi")


def test_a_message_that_is_too_large_is_written_down_each_time() -> None:
    kept = RenderedMessages(rendered, bytes_max=2_000)
    assert kept.of(user(1, "x" * 1_000)) == kept.of(user(1, "x" * 1_000))
    assert kept.kept == {}
    assert kept.bytes == 0
