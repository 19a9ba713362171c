"""Whether Postgres answers, asked on a session that is kept: to log in anew costs both sides some
milliseconds, and the server a process, each time."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

ANSWER_SECONDS_MAX = 2.0


class PostgresSession:
    """Asks a server again and again, for one who asks at a time."""

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]]) -> None:
        self._connect = connect
        self._session: psycopg.Connection[Any] | None = None
        self.serves = False  # one that recovers does not, and answers that

    def answers(self) -> bool:
        """Whether a server answers at all, if only that it is not ready: one that recovers after a
        crash takes its time. It has some seconds to answer, and where it does not some more to let
        a new session in."""
        import psycopg  # slow to import, and most commands ask Postgres nothing

        self.serves = self._session is not None and is_answered(self._session)
        if self.serves:
            return True
        if self._session is not None:
            self._session.close()
            self._session = None
        try:
            self._session = self._connect()
        except psycopg.OperationalError as error:
            return "FATAL" in str(error)
        self.serves = True
        return True


def is_answered(session: psycopg.Connection[Any]) -> bool:
    """Whether a session answers a question in time."""
    import psycopg

    connection = session.pgconn
    deadline = time.monotonic() + ANSWER_SECONDS_MAX
    try:
        connection.send_query(b"select")
        while connection.is_busy():
            ready, _, _ = select.select([connection.socket], [], [], deadline - time.monotonic())
            if not ready:
                return False
            connection.consume_input()
        sound = True
        while (result := connection.get_result()) is not None:
            sound = sound and result.status == psycopg.pq.ExecStatus.TUPLES_OK
    except (psycopg.OperationalError, ValueError):  # a time that has passed cannot be waited for
        return False
    return sound
