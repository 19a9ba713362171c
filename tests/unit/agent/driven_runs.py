"""What tests of runs share: two calls of tools, the events of a run, and an agent with a block."""

from __future__ import annotations

import asyncio
from typing import Any

from libs.contracts.agent.conversations import ToolCall
from libs.contracts.bus_messages import Context
from libs.contracts.memory.blocks import CreateBlocks
from services.agent.domain.runs.step_results import ModelReply
from tests.contract.examples import BLOCK, HUMAN
from tests.unit.agent.model_replies import words
from tests.unit.agent.world import ASK, World

TEA = ToolCall(
    id="call_1", name="memory_insert", arguments='{"label":"human","new_string":"Likes tea"}'
)


KEEP = ToolCall(id="call_2", name=ASK, arguments='{"content":"tea"}')


ACCEPTED = ["message.appended", "run.accepted", "run.started", "message.appended"]


WORDS = ["model.replied", "message.appended", "run.completed"]


async def with_block(world: World) -> None:
    process = world.process("setup")
    await process.bus.request(CreateBlocks(blocks=[HUMAN]), Context("blocks", org="org-1"))
    await world.agent(block_ids=[BLOCK])


def frozen() -> tuple[Any, asyncio.Event, asyncio.Event]:
    """Something that stands still when it is reached, until it is let go."""
    reached, let_go = asyncio.Event(), asyncio.Event()

    async def stand_still() -> ModelReply:
        reached.set()
        await let_go.wait()
        return words("too late")

    return stand_still, reached, let_go
