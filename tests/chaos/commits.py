"""Reads Postgres' wire protocol just far enough to lose the answer to a commit, or the commit."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

# Every statement of the event store that changes something begins like this.
COMMITTING = b"with gate as ("
STARTUP_CODES_MORE = frozenset({80877103, 80877104})  # asks for TLS or GSS; a start-up follows
ERROR, READY = b"E", b"Z"


@dataclass(slots=True)
class Cuts:
    """How many answers are still to be lost, and what became of the commits that were cut."""

    share: float = 0.2  # of the commits that pass
    left: int = 0
    lost_before: int = 0  # the server never saw the statement
    lost_after: int = 0  # it is committed, and the client was not told
    before_share: float = 0.0
    rolls: random.Random = field(default_factory=random.Random)

    def hits(self) -> bool:
        """Whether the commit that passes now is one of those that are cut."""
        return self.left > 0 and self.rolls.random() < self.share


class Messages:
    """Splits what one side sends into messages: `(type, body)`."""

    def __init__(self, *, starting: bool) -> None:
        self.starting = starting
        self.rest = b""

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The messages that are complete now. Those before a session have no type."""
        self.rest += data
        while True:
            head = 0 if self.starting else 1
            if len(self.rest) < head + 4:
                return
            size = head + int.from_bytes(self.rest[head : head + 4])
            if len(self.rest) < size:
                return
            kind, body = self.rest[:head], self.rest[head + 4 : size]
            self.rest = self.rest[size:]
            if self.starting:
                self.starting = int.from_bytes(body[:4]) in STARTUP_CODES_MORE
            else:
                yield kind, body


class CommitTap:
    """Watches one session for statements that commit, and cuts some of them off."""

    def __init__(self, cuts: Cuts) -> None:
        self.cuts = cuts
        self.asked = Messages(starting=True)
        self.told: Messages | None = None  # while the answer of a doomed commit is awaited
        self.prepared: dict[bytes, bool] = {}
        self.bound = False
        self.failed = False

    def sent(self, data: bytes) -> bool:
        """False where the statement is lost on its way."""
        for kind, body in self.asked.feed(data):
            if self.commits(kind, body) and self.cuts.hits():
                if self.cuts.rolls.random() < self.cuts.before_share:
                    self.cuts.lost_before += 1
                    return False
                self.told, self.failed = Messages(starting=False), False
        return True

    def commits(self, kind: bytes, body: bytes) -> bool:
        """Whether this message makes the server carry out a statement that commits."""
        if kind == b"P":
            name, query = body.split(b"\0")[:2]
            self.prepared[name] = query.startswith(COMMITTING)
        elif kind == b"B":
            self.bound = self.prepared.get(body.split(b"\0")[1], False)
        return kind == b"E" and self.bound

    def answered(self, data: bytes) -> bool:
        """False once the answer to a doomed commit is complete; a refusal is an answer too, but
        does not count."""
        if self.told is None:
            return True
        for kind, _ in self.told.feed(data):
            self.failed |= kind == ERROR
            if kind == READY:
                self.cuts.lost_after += not self.failed
                self.cuts.left -= not self.failed
                return False
        return True
