"""Progress of the passes over a database: kept beside the server that it goes to.

A pass writes what it will have done into a copy; the copy takes the place of the file when the
import of the pass has been completed. So a pass that dies is made again, and nothing is sent twice.
"""

from __future__ import annotations

import sqlite3
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from deploy.letta_migration.runs import PendingRequest

TABLES = """
create table if not exists progress (
    kind text not null, id text not null, value text not null, primary key (kind, id)
) without rowid;
"""


class AgentProgress(BaseModel):
    """The progress of an agent's messages and runs."""

    # The newest messages that were taken over, by their sequence ids, in order.
    recent: list[int] = []
    listed_at: datetime | None = None
    # Runs that had not ended, with the conversation that each is of.
    open_runs: dict[str, str] = {}
    version: int = 0
    digest: str = ""
    secrets: str = ""
    secret_names: list[str] = []


class ConversationProgress(BaseModel):
    """The progress of a conversation: its version, and the messages that models are shown."""

    version: int = 0
    window: list[str] = []
    pending: PendingRequest | None = None
    system: str = ""
    config: str = ""
    wanted: list[str] = []
    # Rows in the window that are several messages here, with the ids of these.
    parts: dict[str, list[str]] = {}


class BlockProgress(BaseModel):
    """The version of a block, and the fields that it has there."""

    version: int = 0
    fields: dict[str, Any] = {}


class Progress:
    """The progress so far."""

    def __init__(self, path: Path | str = ":memory:") -> None:
        self.path = path
        self.connection = sqlite3.connect(path)
        self.connection.executescript(TABLES)

    def value(self, kind: str, name: str) -> str | None:
        """The record of a thing; None where it was not taken over yet."""
        row = self.connection.execute(
            "select value from progress where kind = ? and id = ?", (kind, name)
        ).fetchone()
        return str(row[0]) if row else None

    def keep(self, kind: str, name: str, value: str) -> None:
        """Keep something of a thing."""
        self.connection.execute(
            "insert or replace into progress (kind, id, value) values (?, ?, ?)",
            (kind, name, value),
        )

    def agent(self, name: str) -> AgentProgress:
        """The progress of an agent."""
        kept = self.value("agent", name)
        return AgentProgress.model_validate_json(kept) if kept else AgentProgress()

    def keep_agent(self, name: str, progress: AgentProgress) -> None:
        """Keep how far an agent was taken over."""
        self.keep("agent", name, progress.model_dump_json())

    def conversation(self, name: str) -> ConversationProgress:
        """The progress of a conversation."""
        kept = self.value("conversation", name)
        return ConversationProgress.model_validate_json(kept) if kept else ConversationProgress()

    def keep_conversation(self, name: str, progress: ConversationProgress) -> None:
        """Keep how far a conversation was taken over."""
        self.keep("conversation", name, progress.model_dump_json())

    def block(self, name: str) -> BlockProgress:
        """The progress of a block."""
        kept = self.value("block", name)
        return BlockProgress.model_validate_json(kept) if kept else BlockProgress()

    def keep_block(self, name: str, progress: BlockProgress) -> None:
        """Keep what a block is there."""
        self.keep("block", name, progress.model_dump_json())

    def has_run(self, name: str) -> bool:
        """Whether a run without messages was taken over."""
        return self.value("run", name) is not None

    def keep_run(self, name: str) -> None:
        """Remember that a run without messages was taken over."""
        self.keep("run", name, "")

    def is_new(self, kind: str, name: str, digest: str) -> bool:
        """Whether a thing was not taken over yet as it is now; from now on it was."""
        if self.value(kind, name) == digest:
            return False
        self.keep(kind, name, digest)
        return True

    def close(self) -> None:
        """Keep everything, and let go of the file."""
        self.connection.commit()
        self.connection.close()
