"""The session on which the supervisor asks whether Postgres answers."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from deploy.embedded import postgres_session
from tests.servers import PostgresServer


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    server = PostgresServer().start()
    yield server
    server.close()


def test_it_asks_on_one_session_until_that_does_not_answer(
    own_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = own_postgres.server.session()
    assert session.answers()
    first = session._session
    assert session.answers()
    assert session._session is first

    assert first is not None
    monkeypatch.setattr(postgres_session, "ANSWER_SECONDS_MAX", 0.2)
    pid = first.info.backend_pid
    os.kill(pid, signal.SIGSTOP)
    try:
        assert session.answers(), "another session answers"
        assert session._session is not first
    finally:
        os.kill(pid, signal.SIGCONT)

    own_postgres.kill9()
    assert not session.answers()
    own_postgres.start()
    assert session.answers()
