"""Commands about an agent's memory blocks that a tool call asks for. A repeated call sends the same
commands, with the same ids: done twice, they have the effect of once."""

from __future__ import annotations

from functools import partial

from libs.bus.ports import Bus
from libs.contracts.memory.blocks import Cause
from libs.contracts.prompt_escaping import unquote_label
from services.agent.adapters.block_queries import BlockQueries
from services.agent.adapters.tool_owner_port import Calling, send_command


class BlockCommands:
    """Finds blocks by what a model calls them, and sends commands about them."""

    def __init__(self, bus: Bus, queries: BlockQueries) -> None:
        self.send = partial(send_command, bus)
        self.queries = queries

    async def by_label(self, calling: Calling) -> dict[str, str]:
        """The ids of the agent's blocks by their labels."""
        labels = await self.queries.labels(calling.context.org, calling.design.block_ids)
        # Two blocks may get one label in the same moment (ADR 20): the one attached first counts.
        order = [block_id for block_id in calling.design.block_ids if block_id in labels]
        return {labels[block_id]: block_id for block_id in reversed(order)}


def block_named(label: str, by_label: dict[str, str]) -> str | None:
    """The block of this label, also as a model sees that in its prompt."""
    return by_label.get(label) or by_label.get(unquote_label(label))


def label_as_stored(label: str, by_label: dict[str, str]) -> str:
    """The label as its block has it, which a model may quote as it sees it in its prompt."""
    unquoted = unquote_label(label)
    return unquoted if label not in by_label and unquoted in by_label else label


def no_block(label: str, by_label: dict[str, str]) -> str:
    """The error text for a label that none of the agent's blocks has."""
    known = ", ".join(sorted(by_label)) or "none"
    return f"You have no memory block labelled '{label}'. Yours are: {known}"


def cause_of(calling: Calling) -> Cause:
    """The call as the cause of a change."""
    return Cause(
        agent_id=calling.design.config.id,
        run_id=calling.run_id,
        tool_call_id=calling.call.id,
        tool=calling.call.name,
    )
