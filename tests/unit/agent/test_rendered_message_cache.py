"""Messages that are written down once for a model: nothing else is shown than without that."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import count

from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json

from libs.contracts.agent.conversations import Message, ToolCall
from services.agent.adapters.models.openai_request import content_of, rendered_messages
from services.agent.adapters.models.rendered_message_cache import ENTRY_BYTES, RenderedMessages
from tests.unit.agent.asking import ask
from tests.unit.agent.openai_documents import body_of

AT = datetime(2026, 1, 1, tzinfo=UTC)
SYSTEM = Message(id="message-0", role="system", content="You are Sam.", created_at=AT)


PIECES = st.sampled_from(["user", "assistant", "call", "image"])


def message(number: int, kind: str) -> list[Message]:
    """What a kind of step adds to a conversation."""
    one = {"id": f"message-{number}", "created_at": AT}
    if kind in ("user", "assistant"):
        return [Message(role=kind, content=f"said {number}", **one)]
    call = ToolCall(id=f"call-{number}", name="draw", arguments="{}")
    parts = [{"type": "text", "text": "done"}]
    if kind == "image":
        source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
        parts.append({"type": "image", "source": source})
    result = {"name": "draw", "tool_call_id": call.id, "tool_status": "success"}
    return [
        Message(role="assistant", content="", tool_calls=[call], **one),
        Message(role="tool", content=parts, **one | result | {"id": f"message-{number}-result"}),
    ]


@given(st.lists(st.tuples(st.lists(PIECES, max_size=4), st.integers(0, 3)), max_size=6))
def test_a_request_is_the_same_whatever_is_kept_of_earlier_ones(
    steps: list[tuple[list[str], int]],
) -> None:
    kept = RenderedMessages(rendered_messages, bytes_max=20 * ENTRY_BYTES)
    window: list[Message] = []
    numbers = count(1)
    for added, forgotten in steps:
        window = window[forgotten:]
        for kind in added:
            window += message(next(numbers), kind)
            request = ask(SYSTEM, *window)
            tools = to_json(body_of(request).get("tools", []))
            assert json.loads(content_of(request, kept, tools)) == body_of(request)
            assert (
                kept.bytes
                == sum(rendered.bytes for rendered in kept.kept.values())
                <= kept.bytes_max
            )


def user(number: int, text: str) -> Message:
    return Message(id=f"message-{number}", role="user", content=text, created_at=AT)


def test_what_is_kept_is_used_for_the_very_messages_only() -> None:
    made: list[Message] = []

    def render(messages: Sequence[Message]) -> Iterator[bytes]:
        for window_message in messages:
            made.append(window_message)
            yield str(window_message.content).encode()

    kept = RenderedMessages(render)
    first, second, third = user(1, "Hi"), user(2, "Hello"), user(3, "Bye")
    changed = first.model_copy(update={"content": "Ho"})
    assert kept.of([SYSTEM, first, second]) == [b"You are Sam.", b"Hi", b"Hello"]
    made.clear()
    assert kept.of([SYSTEM, first, second, third]) == [b"You are Sam.", b"Hi,Hello", b"Bye"]
    assert made == [SYSTEM, second, third], "the first is written down already"
    assert kept.of([SYSTEM, changed, second, third]) == [b"You are Sam.", b"Ho,Hello", b"Bye"]
    assert kept.bytes == 2 * ENTRY_BYTES + len("Ho,Hello")


def test_a_window_that_is_too_large_is_written_down_each_time() -> None:
    kept = RenderedMessages(rendered_messages, bytes_max=2_000)
    window = [SYSTEM, user(1, "x" * 1_000), user(2, "y")]
    assert kept.of(window) == kept.of(window)
    assert kept.kept == {}
    assert kept.bytes == 0
