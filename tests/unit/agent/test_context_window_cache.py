"""What models are shown of a window is the same, whatever is kept of the step before."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from libs.contracts.agent.conversations import Message, ToolCall
from services.agent.domain.conversations.context_window_cache import (
    ContextWindowCache,
    as_shown,
    weight,
)

AT = datetime(2026, 1, 1, tzinfo=UTC)
KINDS = st.sampled_from(["user", "assistant", "thoughts", "call", "calls", "result", "approval"])


def message(number: int, kind: str, owed: list[str]) -> Message:
    """A message of a kind; a result answers the oldest call that is owed one, or none at all."""
    one = {"id": f"message-{number}", "created_at": AT, "content": f"said {number}"}
    match kind:
        case "thoughts" | "call" | "calls":
            names = [f"call-{number}-{n}" for n in range(2 if kind == "calls" else 1)]
            owed += names
            calls = [ToolCall(id=name, name="look", arguments="{}") for name in names]
            said = {"reasoning": "hm", "inner_thoughts": True} if kind == "thoughts" else {}
            return Message(role="assistant", tool_calls=calls, **one | said)
        case "result":
            call = owed.pop(0) if owed else "call-unknown"
            one["content"] = "x" * 100
            return Message(role="tool", name="look", tool_call_id=call, **one)
    return Message(role=kind, **one)  # type: ignore[arg-type]


@given(
    st.lists(
        st.tuples(st.lists(KINDS, max_size=5), st.integers(0, 3), st.sampled_from([None, 50, 200])),
        max_size=6,
    )
)
def test_steps_are_shown_what_they_would_be_anew(
    steps: list[tuple[list[str], int, int | None]],
) -> None:
    kept, window, owed, numbers = ContextWindowCache(), list[Message](), list[str](), count(1)
    for added, forgotten, chars_max in steps:
        window = window[forgotten:] + [message(next(numbers), kind, owed) for kind in added]
        shown = as_shown(window, chars_max)
        assert kept.of(window, chars_max) == (shown, weight(shown))


def test_what_was_shown_is_not_gone_through_again() -> None:
    kept, window = ContextWindowCache(), [message(number, "user", []) for number in range(3)]
    kept.of(window, None)
    [first, _, _] = window
    assert kept.of([*window, first], None)[0] == [*window, first]
    assert kept.shown == window


def test_a_result_in_the_place_of_another_message_is_put_behind_its_call() -> None:
    kept, owed = ContextWindowCache(), list[str]()
    call, later = message(1, "call", owed), message(2, "user", owed)
    kept.of([call, later], None)
    window = [call, message(3, "result", owed)]
    assert kept.of(window, None)[0] == window
