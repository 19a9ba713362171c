"""One run of an agent as it goes on: its messages one by one, over broken connections too."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import sleep
from typing import Any, cast
from uuid import uuid4

from cli.exit_codes import CommandError, ExitCode
from cli.server import Server, idempotency_key

RESUMES_MAX = 8  # without any event in between
RESUME_SECONDS, RESUME_SECONDS_MAX = 0.2, 5.0
WELL_ENDED = {"end_turn", "tool_rule", "max_steps"}
WAITS = "requires_approval"


def user_message(text: str) -> dict[str, Any]:
    """A message of the user, with an id of its own: sent again it is the same."""
    return {"role": "user", "content": text, "otid": str(uuid4())}


@dataclass
class RunStream:
    """A run that answers messages. `events` may be called again after it was interrupted."""

    server: Server
    agent_id: str
    messages: Sequence[Mapping[str, Any]]
    tokens: bool = False
    override_model: str | None = None
    conversation_id: str | None = None  # without one the agent's own
    run_id: str | None = None
    stop_reason: str | None = None
    usage: Mapping[str, Any] | None = None
    error: str | None = None
    was_too_long: bool = False
    _seen: int = 0
    _key: dict[str, str] = field(default_factory=idempotency_key)
    _wants_cancel: bool = False

    @property
    def has_ended(self) -> bool:
        """Whether the server has said how the run ended."""
        return self.stop_reason is not None or self.error is not None

    @property
    def is_cancelled(self) -> bool:
        """Whether it ended because somebody cancelled it."""
        return self.stop_reason == "cancelled"

    @property
    def has_failed(self) -> bool:
        """Whether it ended in another way than by an answer or a question."""
        return self.error is not None or self.stop_reason not in {*WELL_ENDED, WAITS}

    def events(self) -> Iterator[dict[str, Any]]:
        """The messages, or with `tokens` their parts, that have not come before. Raises what the
        server refuses, and CommandError where it cannot be reached any more."""
        import httpx
        from letta_client import APIConnectionError

        tries = 0
        while not self.has_ended:
            if tries:
                sleep(min(RESUME_SECONDS * 2**tries, RESUME_SECONDS_MAX))
            try:
                for event in self._stream():
                    tries = 0
                    if self._take(event):
                        yield event
            except APIConnectionError:
                if not self.run_id:  # the server was never there
                    raise
            except httpx.TransportError:
                pass  # the connection broke in mid-stream
            tries += 1
            if tries > RESUMES_MAX and not self.has_ended:
                raise self._lost()

    def cancel(self) -> None:
        """Ask the server to end the run, also before it has said which one it is. May be repeated;
        a run that has ended stays as it is."""
        import letta_client

        self._wants_cancel = True
        if self.run_id and not self.has_ended:
            path = f"/v1/agents/{self.agent_id}/messages/cancel"
            # It has just ended, or the stream will tell that the server is away.
            with suppress(letta_client.ConflictError, letta_client.APIConnectionError):
                self.server.post(path, {"run_ids": [self.run_id]})

    def cancel_after(self, seconds: float) -> threading.Timer:
        """Cancel the run if it takes longer; the timer has started."""

        def too_long() -> None:
            self.was_too_long = True
            self.cancel()

        timer = threading.Timer(seconds, too_long)
        timer.daemon = True
        timer.start()
        return timer

    def _stream(self) -> Iterator[dict[str, Any]]:
        import letta_client

        try:
            yield from self._resume() if self.run_id else self._start()
        except letta_client.APIStatusError as problem:
            if not _is_error_event(problem.body):
                raise
            yield cast(dict[str, Any], problem.body)

    def _start(self) -> Iterator[dict[str, Any]]:
        body = {
            "messages": list(self.messages),
            "stream_tokens": self.tokens,
            "background": True,  # what makes a stream one that can be resumed
            "include_pings": True,
            **({"override_model": self.override_model} if self.override_model else {}),
        }
        path = f"/v1/agents/{self.agent_id}/messages/stream"
        if self.conversation_id:
            path = f"/v1/conversations/{self.conversation_id}/messages"
        return self.server.stream(path, body, self._key)

    def _resume(self) -> Iterator[dict[str, Any]]:
        body = {"starting_after": self._seen, "include_pings": True}
        return self.server.stream(f"/v1/runs/{self.run_id}/stream", body, {})

    def _take(self, event: Mapping[str, Any]) -> bool:
        """Keep what an event says of the run; whether it is a message."""
        self._seen = event.get("seq_id") or self._seen
        if self.run_id is None and event.get("run_id"):
            self.run_id = event["run_id"]
            if self._wants_cancel:
                self.cancel()
        match event.get("message_type"):
            case "stop_reason":
                self.stop_reason = event["stop_reason"]
            case "usage_statistics":
                self.usage = event
            case "error_message":
                self.error = str(event.get("message") or event.get("error_type"))
            case "ping":
                pass
            case _:
                return True
        return False

    def _lost(self) -> CommandError:
        known = f"; see how it ends: heeler runs show {self.run_id}" if self.run_id else ""
        return CommandError(
            f"The connection broke {RESUMES_MAX} times while the agent answered{known}",
            ExitCode.UNREACHABLE,
        )


def _is_error_event(body: object) -> bool:
    return isinstance(body, dict) and body.get("message_type") == "error_message"
