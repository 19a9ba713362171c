"""Limits on the connections of one process: how many there are, and how much memory they use.
Each connection keeps limits of its own (`http_protocol`).

A connection is *owing* while the server waits for its client: for a head, for the rest of a body,
for the next request. If there is no room, the connection that has owed longest is closed, so that
idle and half-sent connections never keep other clients out.
"""

from __future__ import annotations

import asyncio
import logging
import math
import resource
from typing import Protocol

log = logging.getLogger(__name__)

# What is left of the descriptors for Postgres, NATS, files and connections about to be refused.
DESCRIPTORS_RESERVED = 256
UPLOAD_BYTES_MAX = 64 * 1024 * 1024
UNREAD_BYTES_MAX = 64 * 1024 * 1024
SWEEP_SECONDS = 1.0


class Connection(Protocol):
    """The part of a connection that the limits see and act on."""

    deadline: float  # while it is owing
    upload_bytes: int  # of a body that has not come whole

    def refuse_for_room(self) -> None:
        """Answer that there are too many connections, and close."""

    def give_way(self) -> None:
        """Close the connection at once, without an answer."""

    def out_of_time(self) -> None:
        """Say that the client took too long, and close."""

    def unread_bytes(self, now: float) -> int:
        """Bytes that the client has yet to read; one that reads nothing for too long is cut."""


class ConnectionLimits:
    """All connections of one process."""

    def __init__(self, connections_max: int) -> None:
        self.connections_max = connections_max
        self.open: set[Connection] = set()
        self.owing: dict[Connection, None] = {}  # since the longest time first
        self.upload_bytes = 0
        self.swept_at = math.inf

    def add(self, connection: Connection) -> None:
        """Count a new connection, of which `owes` was said; who owes longest makes room."""
        self.open.add(connection)
        while len(self.open) > self.connections_max:
            oldest = next(iter(self.owing))
            if oldest is connection:
                connection.refuse_for_room()
                return
            oldest.give_way()

    def remove(self, connection: Connection) -> None:
        """Count a connection no more. Safe to repeat."""
        self.open.discard(connection)
        self.owing.pop(connection, None)
        self.upload_ended(connection)

    def owes(self, connection: Connection, seconds: float) -> None:
        """The client has so long for what it is expected to send."""
        connection.deadline = asyncio.get_running_loop().time() + seconds
        self.owing.pop(connection, None)
        self.owing[connection] = None

    def owes_nothing(self, connection: Connection) -> None:
        """The client has sent what it owed: the server answers."""
        self.owing.pop(connection, None)

    def count_upload(self, connection: Connection, size: int) -> None:
        """Count more of a body. If incomplete bodies take too much, the oldest sender is cut."""
        connection.upload_bytes += size
        self.upload_bytes += size
        while self.upload_bytes > UPLOAD_BYTES_MAX:
            uploading = (sender for sender in self.owing if sender.upload_bytes)
            next(uploading, connection).give_way()

    def upload_ended(self, connection: Connection) -> None:
        """A body came whole, or will not come any more."""
        self.upload_bytes -= connection.upload_bytes
        connection.upload_bytes = 0

    async def turn(self) -> None:
        """Wait a second, then close the connections that are late."""
        await asyncio.sleep(SWEEP_SECONDS)
        self.sweep(asyncio.get_running_loop().time())

    def sweep(self, now: float) -> None:
        """Close connections that owe for too long or do not read; and, if too many bytes wait to be
        read, those with the most. Time in which this process did not run does not count."""
        stood_still = max(0.0, now - self.swept_at - 2 * SWEEP_SECONDS)
        self.swept_at = now
        for connection in self.owing:
            connection.deadline += stood_still
        for connection in [late for late in self.owing if late.deadline <= now]:
            connection.out_of_time()
        unread = {
            connection: size
            for connection in [*self.open]
            if (size := connection.unread_bytes(now))
        }
        waiting = sum(unread.values())
        for connection in sorted(unread, key=unread.__getitem__, reverse=True):
            if waiting <= UNREAD_BYTES_MAX:
                break
            waiting -= unread[connection]
            connection.give_way()


def room_for_connections(wanted: int) -> int:
    """The number of connections that may be open: as wanted, unless there are too few descriptors.
    Raises the limit on descriptors as far as this process may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (ValueError, OSError) as problem:
            log.warning("the limit of %s descriptors cannot be raised: %s", soft, problem)
    room = wanted if soft == resource.RLIM_INFINITY else max(1, soft - DESCRIPTORS_RESERVED)
    if room < wanted:
        log.warning("at most %s connections: there are only %s descriptors", room, soft)
    return min(wanted, room)
