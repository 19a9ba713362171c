"""Whatever is changed about an agent file, it is refused by entry, or what it becomes is sound."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

from libs.contracts.agent_file import LINE
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.prompts.model_context import shown_messages
from services.api.v1.agent_file.entry_problems import AgentFileInvalid
from tests.unit.api.agent_files.small_agent_files import (
    legacy_file,
    lines_of,
    modern_file,
    options,
)
from tests.unit.api.agent_files.test_reading_agent_files import aggregates

SEEDS = 300
VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, 2**40, "", "x", [], {}, ["x"], [None], {"a": 1}, [1, 2, 3]),
    *("agent-0", "message-0", "block-0", "tool-0", "assistant", "tool", "approval", "summary"),
    *("2020-01-01", "\x00", '{"message": 1, "type": "user_message"}'),
    [{"type": "text", "text": "t"}],
    [{"type": "reasoning", "reasoning": "r", "is_native": False}],
    [{"type": "tool_call", "id": "c", "name": "n", "input": {}}],
    [{"type": "image", "source": {"type": "url", "url": "http://x"}}],
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where there is anything in a value."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else ()
    for key, below in enumerate(value) if isinstance(value, list) else items:
        yield from places(below, (*path, key))


def changed(file: Any, choice: random.Random) -> Any:
    """A file with something replaced, removed, repeated or out of order."""
    file = copy.deepcopy(file)
    for _ in range(choice.randint(1, 3)):
        *path, key = choice.choice([*places(file)])
        holder = file
        for step in path:
            holder = holder[step]
        kind = choice.random()
        if kind < 0.6:
            holder[key] = copy.deepcopy(choice.choice(VALUES))
        elif kind < 0.75:
            del holder[key]
        elif isinstance(holder, list):
            holder.insert(choice.randint(0, len(holder)), copy.deepcopy(holder[key]))
        elif isinstance(holder[key], list):
            choice.shuffle(holder[key])
    return file


def is_paired(conversation: Conversation) -> bool:
    """Whether each call has its result, and each result its call."""
    owed: set[str | None] = set()
    for message in shown_messages(conversation.state, None):
        if message.role == "tool":
            if message.tool_call_id not in owed:
                return False
            owed.remove(message.tool_call_id)
        elif owed:
            return False
        owed |= {call.id for call in message.tool_calls}
    return not owed


def test_a_changed_file_is_refused_by_entry_or_its_lines_are_sound() -> None:
    taken, nameless = 0, list[str]()
    for seed in range(SEEDS):
        choice = random.Random(seed)
        file = changed(choice.choice([modern_file, legacy_file])(), choice)
        data = json.dumps(file).encode()
        try:
            lines = lines_of(data, options(tools_accepted=choice.random() < 0.5))
        except AgentFileInvalid as invalid:
            nameless += [error for error in invalid.errors if ": " not in error]
            continue
        taken += 1
        for line in lines:
            assert LINE.validate_json(line.model_dump_json()) == line, seed
        for aggregate in aggregates(lines).values():
            if isinstance(aggregate, Conversation):
                assert aggregate.state.window[0].role == "system", seed
                assert is_paired(aggregate), seed
    assert nameless == []
    assert SEEDS // 10 < taken < SEEDS
