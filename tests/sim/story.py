"""What a client makes of the events of a stream, over however many connections they come."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

DONE = "[DONE]"


@dataclass(slots=True)
class Story:
    """What one client heard of one run."""

    run_id: str = ""
    last: int = 0
    texts: dict[str, str] = field(default_factory=lambda: defaultdict(str))
    stop_reason: str = ""
    error: Any = None
    ended: bool = False
    repeated: list[int] = field(default_factory=list)

    def hear(self, chunk: bytes) -> None:
        """One event."""
        for line in chunk.decode().splitlines():
            name, _, value = line.partition(": ")
            if name == "id":
                number = int(value)
                if number <= self.last:
                    self.repeated.append(number)
                self.last = number
            elif name == "data" and value == DONE:
                self.ended = True
            elif name == "data":
                self.read(json.loads(value))

    def read(self, event: Any) -> None:
        """What an event says."""
        match event.get("message_type"):
            case "ping":
                self.run_id = event["run_id"]
            case "assistant_message":
                self.texts[event["id"]] += event["content"]
            case "stop_reason":
                self.stop_reason = event["stop_reason"]
            case "error_message":
                self.error = event

    def end(self) -> tuple[int, Any, dict[str, str]]:
        """The whole answer, as it would have been given without streaming."""
        if self.error is not None:
            return 500, self.error, {"x-should-retry": "false"}
        messages = [{"id": name, "content": text} for name, text in self.texts.items()]
        return 200, {"messages": messages, "stop_reason": {"stop_reason": self.stop_reason}}, {}
