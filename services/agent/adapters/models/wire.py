"""How requests travel to a provider, and answers come back: JSON over HTTP, whole or as events."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Protocol

from libs.contracts.message import Json, JsonObject

REQUEST_SECONDS_MAX = 600.0
CONNECT_SECONDS_MAX = 10.0
LIST_SECONDS_MAX = 5.0

# Of an error that is no JSON: a page of a proxy may be long.
WORDS_MAX = 500

# Statuses that may be gone when it is asked again; so may all from 500 on.
PASSING_STATUSES = (408, 409, 429)


class Refused(Exception):
    """The provider answered with an HTTP error."""

    def __init__(self, status: int, headers: Mapping[str, str], text: str) -> None:
        super().__init__(f"{status}: {text[:WORDS_MAX]}")
        self.status = status
        self.headers = headers
        self.text = text

    @property
    def body(self) -> Json:
        """What the error says of itself; None if it is no JSON."""
        with suppress(ValueError):
            return json.loads(self.text)  # type: ignore[no-any-return]
        return None

    @property
    def passing(self) -> bool:
        """Whether it makes sense to try again: as the provider says, else by the status."""
        word = self.headers.get("x-should-retry", "")
        if word in ("true", "false"):
            return word == "true"
        return self.status in PASSING_STATUSES or self.status >= 500

    @property
    def pause(self) -> float | None:
        """Seconds to wait before another try, if the provider says how long."""
        with suppress(ValueError):
            return float(self.headers.get("retry-after-ms", "")) / 1_000
        said = self.headers.get("retry-after", "")
        with suppress(ValueError):
            return float(said)
        with suppress(ValueError, TypeError, OverflowError):
            date = parsedate_to_datetime(said)
            at = date if date.tzinfo else date.replace(tzinfo=UTC)
            return (at - datetime.now(UTC)).total_seconds()
        return None


class Lost(Exception):
    """No answer, or none to its end. `late`: somebody was there, but took too long."""

    def __init__(self, cause: BaseException, *, late: bool = False) -> None:
        super().__init__(f"{type(cause).__name__}: {cause}")
        self.late = late


class Wire(Protocol):
    """The way to one provider. Every method raises Refused and Lost, and tries once."""

    async def post(self, path: str, content: bytes) -> bytes:
        """The answer to a JSON body, whole."""
        ...

    def events(self, path: str, content: bytes) -> AsyncGenerator[bytes]:
        """The data of the server-sent events that answer a JSON body, as they come. Whoever stops
        early closes the stream, and with it the connection."""
        ...

    async def get(self, path: str, parameters: JsonObject) -> bytes:
        """What is there."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


class EventReader:
    """The data of server-sent events, from chunks as they come; providers put it on one line.

    Lines end where the format says so, not at each character that Unicode calls an end of line:
    those stand in JSON as they are.
    """

    def __init__(self) -> None:
        self.rest = b""

    def read(self, chunk: bytes) -> Iterator[bytes]:
        """The data of the events that this chunk ends."""
        *lines, self.rest = (self.rest + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield line[len(b"data:") :].strip()

    def end(self) -> Iterator[bytes]:
        """What was left when the stream ended: some servers leave out the last end of a line."""
        return self.read(b"\n")
