"""One example of each message about the search for messages."""

from __future__ import annotations

from datetime import UTC, datetime

from libs.contracts.bus_messages import Command
from libs.contracts.memory.semantic_message_search import NearestMessages
from tests.contract.archive_examples import AGENT, SEARCH

MESSAGE_SEARCH_COMMANDS: list[Command] = [
    NearestMessages(
        asker=SEARCH,
        query="mountains",
        agent_id=AGENT,
        roles=["user"],
        after=datetime(2026, 1, 1, tzinfo=UTC),
        limit=5,
    ),
]
