"""Size limits of agents, blocks and tools, in bytes of their JSON decoded and written again, since
a number of five characters may be one of eighteen then.

All that is made in one request has to fit into one message on the bus (`MESSAGE_BYTES_MAX`), and
every change of an agent writes the whole of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic_core import to_json

from libs.contracts.stream_definitions import MESSAGE_BYTES_MAX

AGENT_BYTES_MAX = 1 << 20  # its configuration; without its blocks and messages
BLOCK_BYTES_MAX = 1 << 20
TOOL_BYTES_MAX = 1 << 20
AGENT_TOOLS_BYTES_MAX = 2 << 20  # the schemas of all tools that an agent has
NEW_BLOCKS_BYTES_MAX = 4 << 20  # all that are made with an agent
FIRST_MESSAGES_BYTES_MAX = 1 << 20
assert AGENT_BYTES_MAX + NEW_BLOCKS_BYTES_MAX + FIRST_MESSAGES_BYTES_MAX < MESSAGE_BYTES_MAX


def size(value: object) -> int:
    """The bytes of a value as JSON."""
    return len(to_json(value))


def oversize(what: str, fields: Mapping[str, object], bytes_max: int) -> str | None:
    """Why something with these fields is too large, if it is; names the largest of them."""
    total = size(fields)
    if total <= bytes_max:
        return None
    sizes = {name: size(value) for name, value in fields.items()}
    largest = max(sizes, key=lambda name: sizes[name])
    return (
        f"{what} may have at most {bytes_max} bytes as JSON, and this would have {total}: shorten"
        f" `{largest}`, which has {sizes[largest]} of them"
    )


def oversize_agent(fields: Mapping[str, object]) -> str | None:
    """Why the configuration of an agent is too large, if it is."""
    return oversize("An agent without its blocks", fields, AGENT_BYTES_MAX)


def oversize_block(fields: Mapping[str, object]) -> str | None:
    """Why a block is too large, if it is."""
    return oversize("A block", fields, BLOCK_BYTES_MAX)


def oversize_tool(fields: Mapping[str, object]) -> str | None:
    """Why a tool is too large, if it is."""
    return oversize("A tool", fields, TOOL_BYTES_MAX)


def oversize_creation(request: Mapping[str, object]) -> str | None:
    """Why what a request to make an agent asks for is too large, if it is."""
    own = dict(request)
    blocks = own.pop("memory_blocks", None) or []
    messages = own.pop("initial_message_sequence", None) or []
    return (
        oversize_agent(own)
        or oversize_new_blocks(blocks)
        or oversize(
            "The first messages of an agent",
            {"initial_message_sequence": messages},
            FIRST_MESSAGES_BYTES_MAX,
        )
    )


def oversize_new_blocks(blocks: object) -> str | None:
    """Why the blocks that are made with an agent are too large, one of them or all together."""
    assert isinstance(blocks, list), "a request that was read has a list"
    for number, block in enumerate(blocks):
        problem = oversize_block(block)
        if problem:
            return f"`memory_blocks[{number}]`: {problem}"
    return oversize("The blocks of a new agent", {"memory_blocks": blocks}, NEW_BLOCKS_BYTES_MAX)
