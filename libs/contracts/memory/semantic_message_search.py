"""The language of the search for messages by meaning: the memory service embeds, and compares."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from pydantic import Field

from libs.contracts.bus_messages import Command
from libs.contracts.memory.blocks import SERVICE

MESSAGES_FOUND_MAX = 100
# Of either list, the words' and the meaning's, so many are fused, or as many as are asked for.
CANDIDATES_MIN = 60
# Whose words are embedded; results of tools and system messages are found by their words alone.
EMBEDDED_ROLES = ("user", "assistant")


class NearestMessages(Command, service=SERVICE, topic="messages.nearest"):
    """Find the messages of an organisation, of an agent or of a conversation that are nearest to a
    query in meaning.

    Answered with `{"messages": [{"id", "similarity"}]}`, the nearest first; `similarity` is a
    cosine. What was written since the last search is embedded first, as far as that is quick; the
    rest, of a long history that nobody has searched before, in the background.
    """

    keeps_reply: ClassVar[bool] = False
    asker: str
    query: str
    agent_id: str = ""
    conversation_id: str = ""
    project_id: str = ""
    template_id: str = ""
    roles: list[str] = Field(default_factory=lambda: [*EMBEDDED_ROLES])
    after: datetime | None = None
    before: datetime | None = None
    limit: int = CANDIDATES_MIN

    @property
    def target(self) -> str:
        return self.asker
