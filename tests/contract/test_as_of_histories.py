"""Random histories: an agent is shown as it was at random moments, by the queries of the api."""

from __future__ import annotations

from tests.contract.as_of_histories import check
from tests.servers import PostgresServer

HISTORIES = 6


async def test_an_agent_is_shown_as_the_api_answered_at_random_moments(
    postgres_server: PostgresServer,
) -> None:
    assert await check(postgres_server, 1, HISTORIES) == []
