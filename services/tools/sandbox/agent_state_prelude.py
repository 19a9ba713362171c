"""View of the agent for a tool in Python, inside of the sandbox. Not part of any service: this
source stands before and behind that of a tool which takes `agent_state`."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Record:
    """Something with the fields that it has as JSON, as attributes."""

    def __init__(self, fields: dict[str, Any]) -> None:
        vars(self).update({name: as_records(value) for name, value in fields.items()})

    def model_dump(self) -> dict[str, Any]:
        """The fields again, as they are now."""
        return {name: as_json(value) for name, value in vars(self).items()}

    dict = model_dump

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model_dump()!r})"


class Block(Record):
    """A memory block: `label`, `value`, `description`, `limit`, `read_only`, `id`."""


class Memory(Record):
    """The memory blocks of an agent."""

    blocks: list[Any]

    def get_blocks(self) -> list[Any]:
        """All blocks of the agent's memory."""
        return self.blocks

    def list_block_labels(self) -> list[str]:
        """The labels of all blocks."""
        return [block.label for block in self.blocks]

    def get_block(self, label: str) -> Any:
        """The one of this label. Raises KeyError."""
        for block in self.blocks:
            if block.label == label:
                return block
        known = ", ".join(self.list_block_labels())
        raise KeyError(f"There is no memory block {label!r}, only: {known}")

    def update_block_value(self, label: str, value: str) -> None:
        """Give a block another value. Raises KeyError and ValueError."""
        if not isinstance(value, str):
            raise ValueError("The value of a memory block is a string")
        self.get_block(label).value = value

    def set_block(self, block: Any) -> None:
        """Give the block of its label its value. Raises KeyError for a new one."""
        self.update_block_value(block.label, block.value)


class AgentState(Record):
    """An agent, with its `memory`."""

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__({name: value for name, value in fields.items() if name != "blocks"})
        blocks = [Block(block) for block in fields["blocks"]]
        self.memory = Memory({})
        self.memory.blocks = self.blocks = blocks


def as_records(value: Any) -> Any:
    """JSON as tools see it: lists of objects and objects with attributes, also as `x["name"]`."""
    return [as_records(item) for item in value] if isinstance(value, list) else value


def as_json(value: Any) -> Any:
    """A value as JSON that the program can read."""
    if isinstance(value, Record):
        return value.model_dump()
    return [as_json(item) for item in value] if isinstance(value, list) else value


def with_agent_state(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as it is called: with its agent as JSON. It returns what the tool returns, and
    the values of the blocks that it has changed, by their ids."""

    def called(agent_state: dict[str, Any] | None, **arguments: Any) -> Any:
        state = AgentState(agent_state) if agent_state else None
        before = {row["id"]: row["value"] for row in agent_state["blocks"]} if agent_state else {}

        def outcome(value: Any) -> dict[str, Any]:
            try:
                json.dumps(value, allow_nan=False)
            except (TypeError, ValueError, RecursionError):
                value = str(value)
            now = [(block.id, block.value) for block in state.memory.blocks] if state else []
            changed = {id: str(text) for id, text in now if before.get(id) not in (None, text)}
            return {"value": value, "blocks": changed}

        async def awaited() -> dict[str, Any]:
            return outcome(await value)

        value = function(**arguments, agent_state=state)
        return awaited() if hasattr(value, "__await__") else outcome(value)

    called.__wrapped__ = function  # type: ignore[attr-defined]
    return called
