"""A chat session at whatever stdin is, without a server: prints what would be sent to the agent.

A message `CALL` asks for an approval, a message `SLOW` waits until a line stands in the file of
the first argument.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import cli.chat_session
from cli.chat_session import ChatSession
from cli.run_streams import WAITS

POLL_SECONDS = 0.01
CALL = {"tool_call_id": "call-1", "name": "delete_all", "arguments": "{}"}
waiting: list[dict[str, Any]] = []


class PrintedRun:
    """A run that is printed instead of made."""

    error = None
    has_failed = is_cancelled = False

    def __init__(self, server: Any, agent_id: str, messages: Sequence[Any], **_: Any) -> None:
        self.stop_reason = "end_turn"
        [self.message] = messages

    def events(self) -> Iterator[dict[str, Any]]:
        """None, after the message was printed."""
        waiting.clear()
        if "approvals" in self.message:
            [answer] = self.message["approvals"]
            print("ANSWER", answer["approve"], repr(answer["reason"]), flush=True)
        else:
            content = self.message["content"]
            content.encode()  # as a request does
            print("MESSAGE", repr(content), flush=True)
            if content.startswith("SLOW"):
                while not Path(sys.argv[1]).exists():
                    time.sleep(POLL_SECONDS)
            if "CALL" in content:
                waiting.append(CALL)
                self.stop_reason = WAITS
        return iter(())


if __name__ == "__main__":
    cli.chat_session.RunStream = PrintedRun  # type: ignore[assignment,misc]
    cli.chat_session.own_calls = lambda server, agent_id: list(waiting)
    ChatSession(None, "agent-1", "ada").run()  # type: ignore[arg-type]
