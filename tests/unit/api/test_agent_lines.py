"""Agents as lines: histories that are longer than a line may be."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, cast

from libs.contracts.agent_file import LINE_BYTES_MAX
from libs.contracts.memory.blocks import BlockChanged, BlockCreated
from services.api.adapters.agents.agent_lines import HISTORY_LINE_BYTES_MAX, AgentLines, WantedAgent
from services.api.domain.line_checks import LineChecks
from tests.contract.examples import AGENT, BLOCK
from tests.contract.histories import one
from tests.unit.api.test_line_checks import check, sound, written

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CHANGES = 120
VALUE_CHARS = 50_000


class BlockLog:
    """The log of a block that was changed often."""

    async def fetch(self, query: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        payloads = [one(BlockCreated).payload_json()]
        payloads += [
            one(BlockChanged, changes={"value": f"{number} " + "x" * VALUE_CHARS}).payload_json()
            for number in range(CHANGES)
        ]
        topics = [BlockCreated.topic, *[BlockChanged.topic] * CHANGES]
        return [
            (BLOCK, version, topic, 1, payload, NOW)
            for version, (topic, payload) in enumerate(zip(topics, payloads, strict=True), 1)
        ]


async def lines_of_block() -> list[bytes]:
    """The lines of the block."""
    lines = AgentLines(cast(Any, BlockLog()))
    wanted = WantedAgent(org="org-1", agent_id=AGENT, now=NOW)
    return [line async for line in lines.short(wanted, [BLOCK])]


async def test_a_block_that_was_changed_often_has_several_lines_that_can_be_imported() -> None:
    lines = await lines_of_block()
    assert sum(map(len, lines)) > LINE_BYTES_MAX
    assert all(len(line) <= LINE_BYTES_MAX for line in lines)
    assert all(len(line) <= HISTORY_LINE_BYTES_MAX + VALUE_CHARS for line in lines)
    header, archive, _, *rest = sound()
    checks: LineChecks = check(written([header, archive, *map(json.loads, lines), *rest]))
    assert checks.events == CHANGES + 1 + len(rest)
