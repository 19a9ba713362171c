"""A database of the old server as the lines of one agent file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256

from deploy.letta_migration.agents import Agents, ToolNames
from deploy.letta_migration.conversations import AgentConversations
from deploy.letta_migration.definitions import OF_ORG, Definitions, Embeddings
from deploy.letta_migration.histories import EncodedHistory
from deploy.letta_migration.memory import Blocks, Files, Passages
from deploy.letta_migration.progress import Progress
from deploy.letta_migration.report import Report
from deploy.letta_migration.secrets import Opener
from deploy.letta_migration.source import LettaDatabase, Row
from deploy.letta_migration.target_versions import TargetVersions, UnchangedVersions
from libs.contracts.agent_file import (
    LINE,
    Definition,
    FileText,
    Footer,
    Header,
    SecretValues,
)
from libs.encryption.sealer import Sealer

type Content = Definition | EncodedHistory | FileText | SecretValues


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass over a database: of one organisation, as far as progress says that it is new. In
    the last one, runs that the old server has not ended are ended."""

    database: LettaDatabase
    org: str
    progress: Progress
    report: Report
    opener: Opener
    sealer: Sealer | None
    target_versions: TargetVersions = field(default_factory=UnchangedVersions)
    embeddings: Embeddings | None = None
    is_last: bool = False

    def content(self) -> Iterator[Content]:
        """Everything that is new, in an order in which each comes after what it needs."""
        yield from Definitions(
            self.database,
            self.org,
            self.progress,
            self.report,
            self.opener,
            self.sealer,
            self.embeddings,
        ).lines()
        yield from Blocks(
            self.database, self.org, self.progress, self.report, self.target_versions
        ).lines()
        yield from Passages(self.database, self.org, self.progress, self.report).lines()
        yield from Files(self.database, self.org, self.progress, self.report).lines()
        for row in self.agents():
            yield from self.conversations_of(row)
        tools = ToolNames.of(self.database, self.org)
        agents = Agents(
            self.database,
            self.progress,
            self.report,
            tools,
            self.opener,
            self.sealer,
            self.target_versions,
        )
        for row in self.agents():
            yield from agents.history(row).take(complete=True)

    def agents(self) -> Iterator[Row]:
        """The agents of the organisation, the oldest first."""
        return self.database.rows("agents", OF_ORG, [self.org], key=("created_at", "id"))

    def conversations_of(self, row: Row) -> Iterator[EncodedHistory]:
        """The conversations of an agent."""
        taking = AgentConversations(
            self.database,
            row,
            self.progress,
            self.report,
            target_versions=self.target_versions,
            is_last=self.is_last,
        )
        yield from taking.lines()
        self.progress.keep_agent(row["id"], taking.mine)


def encode_pass(passed: Pass, written_by: str, at: datetime) -> Iterator[bytes]:
    """The lines of a pass as bytes, with header and footer."""
    header = Header(
        written_by=written_by,
        exported_at=at,
        agent_ids=tuple(row["id"] for row in passed.agents()),
    )
    digest = sha256()
    counts: dict[str, int] = {}

    def line(value: Header | Content) -> bytes:
        json = value.line if isinstance(value, EncodedHistory) else LINE.dump_json(value)
        text = json + b"\n"
        digest.update(text)
        counts[value.kind] = counts.get(value.kind, 0) + 1
        return text

    yield line(header)
    for content in passed.content():
        yield line(content)
    yield LINE.dump_json(Footer(counts=counts, sha256=digest.hexdigest())) + b"\n"
