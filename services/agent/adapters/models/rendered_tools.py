"""Tools as JSON in a provider's words, kept for the next step, which mostly offers the same.

To read a schema of 100,000 bytes takes 20 ms of processor and more, and an agent may have many. So
each is written down once, in a thread if it is long; the event loop goes on between them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from pydantic_core import to_json

from libs.contracts.bus_messages import JsonObject

KEPT_BYTES_MAX = 16 << 20
SHORT_BYTES_MAX = 4 << 10  # less than a millisecond
PIECE_BYTES = 64 << 10


class RenderedTools:
    """A cache of `render` over tools, with a limit; the one that was used longest ago goes
    first."""

    def __init__(
        self, render: Callable[[JsonObject], JsonObject], bytes_max: int = KEPT_BYTES_MAX
    ) -> None:
        self.render = render
        self.bytes_max = bytes_max
        self.bytes = 0
        self.kept: dict[bytes, bytes] = {}

    async def of(self, tools: Sequence[JsonObject]) -> bytes:
        """The tools as a list in JSON."""
        written, looked_at = list[bytes](), 0
        for tool in tools:
            said = to_json(tool)
            rendered = self.kept.get(said)
            if rendered is None:
                if len(said) > SHORT_BYTES_MAX:
                    rendered = await asyncio.to_thread(self.write, tool)
                else:
                    rendered = self.write(tool)
            self.keep(said, rendered)
            written.append(rendered)
            looked_at += len(said)
            if looked_at > PIECE_BYTES:
                looked_at = 0
                await asyncio.sleep(0)
        return b"[" + b",".join(written) + b"]"

    def write(self, tool: JsonObject) -> bytes:
        """One tool as JSON, in the words of the provider."""
        return to_json(self.render(tool))

    def keep(self, said: bytes, rendered: bytes) -> None:
        """Keep what a tool became, and forget what was used longest ago."""
        self.bytes += len(said) + len(rendered)
        if (known := self.kept.pop(said, None)) is not None:
            self.bytes -= len(said) + len(known)
        self.kept[said] = rendered
        while self.bytes > self.bytes_max:
            oldest = next(iter(self.kept))
            self.bytes -= len(oldest) + len(self.kept.pop(oldest))


def json_around(body: JsonObject, tools: bytes) -> bytes:
    """A request as JSON, with the tools in the place that it has for them."""
    members = [
        b'"tools":' + tools if value == [] and name == "tools" else to_json({name: value})[1:-1]
        for name, value in body.items()
    ]
    return b"{" + b",".join(members) + b"}"
