"""What a model was asked: the same for all providers, and without what varies."""

from __future__ import annotations

from typing import Any

import pytest

from cli.agent_tests.cassettes import Cassette, read_cassette, write_cassette
from cli.agent_tests.model_requests import Asked, asked_in, without_varying
from cli.exit_codes import CommandError

AGENT = "agent-ab3a15ca-1bf3-476d-b640-c6b9270c0f9a"
SYSTEM = f"Be kind.\n- AGENT_ID: {AGENT}\n- last recompiled: 2026-11-27 03:31:25 AM UTC+0000"
OPENAI: dict[str, Any] = {
    "tools": [{"type": "function", "function": {"name": "search"}}, {"function": {"name": "book"}}],
    "messages": [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}, {"id": "2"}]},
        {"role": "tool", "tool_call_id": "1", "content": "found on 2026-01-31"},
        {"role": "tool", "tool_call_id": "2", "content": "booked"},
    ],
}
ANTHROPIC: dict[str, Any] = {
    "system": [{"type": "text", "text": SYSTEM}],
    "tools": [{"name": "search"}, {"name": "book"}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1"}]},
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "1",
                    "content": [{"type": "text", "text": "found on 2026-01-31"}],
                },
                {"type": "tool_result", "tool_use_id": "2", "content": "booked"},
            ],
        },
    ],
}


@pytest.mark.parametrize("body", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
def test_a_request_is_read_in_the_words_of_each_provider(body: dict[str, Any]) -> None:
    assert asked_in(body) == Asked(
        system="Be kind.\n- AGENT_ID: <id>\n- last recompiled: <time>",
        tools=["book", "search"],
        heard=["found on <time>", "booked"],
    )


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        (f"to {AGENT}!", "to <id>!"),
        ("at 2026-11-27T03:31:25.922334Z.", "at <time>."),
        ("at 2026-11-27T03:31:25+00:00,", "at <time>,"),
        ("on 2026-11-27 at noon", "on <time> at noon"),
        ("order 2026-11-270, 12345-67", "order 2026-11-270, 12345-67"),
        ("an agent-like thing", "an agent-like thing"),
    ],
)
def test_ids_and_times_may_differ_and_nothing_else(text: str, plain: str) -> None:
    assert without_varying(text) == plain


def test_a_cassette_is_written_whole_and_read_as_it_was(tmp_path: Any) -> None:
    step = {"system": "Be kind.", "tools": [], "heard": ["Hi"], "reply": {"text": "Hello."}}
    cassette = Cassette.model_validate({"model": "a/b", "turns": [[step]]})
    file = tmp_path / "keeps.cassette.json"
    write_cassette(file, cassette)
    assert read_cassette(file) == cassette
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    file.write_text('{"model": 1}')
    with pytest.raises(CommandError, match="is no cassette"):
        read_cassette(file)
