"""A long context window is put together in a process of its own."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from services.api.adapters.conversations.context_message_queries import ShownMessage
from services.api.http import text_work
from services.api.http.text_work import SHORT_SHOWN_CHARS_MAX, TextWorks
from services.api.v1.context_window import context_window_json
from tests.processor_bounds import processor_time
from tests.unit.api.test_text_work import asked_by_somebody

AT = datetime(2026, 1, 1, tzinfo=UTC)


def window_of(words: str) -> tuple[int, bytes, list[ShownMessage]]:
    """What a window is made of whose one message says this, and how long that is."""
    llm = {"model": "offline", "context_window": 32_000}
    agent: Any = {
        "id": "agent-1",
        "system": "",
        "llm_config": llm,
        "tools": [],
        "created_by_id": None,
    }
    said: Any = [{"message_type": "system_message", "content": words}]
    shown = ShownMessage("message-1", "system", AT, None, None, json.dumps(said))
    written = json.dumps(agent).encode()
    return len(written) + len(shown.written), written, [shown]


@pytest.mark.parametrize("count", [1, 1_000_000])
async def test_a_window_is_the_same_however_long_it_is(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(text_work, "org_of", lambda _: "org-1")
    works = TextWorks()
    words = "<memory_blocks>" + 'tea\n"' * count + "</memory_blocks>"
    chars, agent, shown = window_of(words)
    run = works.context_windows.run
    try:
        await run(asked_by_somebody(), SHORT_SHOWN_CHARS_MAX + 1, json.loads, "1")  # starts it
        with processor_time(0.05):
            made = await run(asked_by_somebody(), chars, context_window_json, agent, shown, 1, 0)
    finally:
        works.close()
    window = json.loads(made)
    assert window["core_memory"] == words
    assert window["num_tokens_core_memory"] == -(-len(words) // 4)
