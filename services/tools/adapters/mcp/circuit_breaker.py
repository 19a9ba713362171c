"""Whether a server that keeps failing is asked again. Time is passed in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from services.tools.adapters.mcp.ports import McpHealth

FAILURES_MAX = 5
# After the first opening; each probe that fails doubles it.
OPEN_SECONDS = 15.0
OPEN_SECONDS_MAX = 600.0
ERROR_CHARS_MAX = 500


@dataclass(slots=True)
class CircuitBreaker:
    """Of one server. It opens after some failures in a row, and then lets one request at a time try
    whether the server is back."""

    failures: int = 0
    last_error: str = ""
    asked: bool = False
    open_seconds: float = 0.0
    open_until: datetime | None = None
    probing: bool = False

    def admits(self, now: datetime) -> bool:
        """Whether the server may be asked; if it is open, the caller admitted is the probe, which
        must be ended by `record_success`, `record_failure` or `withdraw`."""
        if self.open_until is None:
            return True
        if self.probing or now < self.open_until:
            return False
        self.probing = True
        return True

    def record_success(self) -> None:
        """Close the circuit: the server has answered."""
        self.failures, self.open_seconds = 0, 0.0
        self.open_until, self.probing, self.asked = None, False, True

    def record_failure(self, error: str, now: datetime) -> None:
        """Count a failure: the server was unreachable, or gave no usable answer. `FAILURES_MAX` in
        a row open the circuit."""
        self.failures += 1
        self.last_error, self.asked = error[:ERROR_CHARS_MAX], True
        if self.failures >= FAILURES_MAX and (self.probing or self.open_until is None):
            self.open_seconds = min(OPEN_SECONDS_MAX, self.open_seconds * 2 or OPEN_SECONDS)
            self.open_until = now + timedelta(seconds=self.open_seconds)
        self.probing = False

    def record_unauthorized(self, error: str) -> None:
        """Note that the server wants another login. The circuit stays closed: a person may
        authorize the server at any moment."""
        self.record_success()
        self.failures, self.last_error = 1, error[:ERROR_CHARS_MAX]

    def withdraw(self) -> None:
        """Free the probe of a caller that learnt nothing: it was cancelled, or sent nothing."""
        self.probing = False

    def health(self) -> McpHealth:
        """The health of a server as it is shown."""
        state: Literal["unknown", "healthy", "failing", "open"] = "healthy"
        if self.open_until is not None:
            state = "open"
        elif not self.asked:
            state = "unknown"
        elif self.failures:
            state = "failing"
        return McpHealth(
            state=state,
            last_error=self.last_error,
            failures=self.failures,
            open_until=self.open_until,
        )
