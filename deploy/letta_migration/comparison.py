"""Compares what the old server has with what this server answers, table by table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from deploy.letta_migration.agents import agent_config
from deploy.letta_migration.definitions import OF_ORG
from deploy.letta_migration.memory import block_of, fitting_block
from deploy.letta_migration.messages import SPEAKING_TYPES, messages_of, utc
from deploy.letta_migration.report import Report
from deploy.letta_migration.source import LettaDatabase, Row
from deploy.letta_migration.target import Missing, Target
from libs.agent_document.agent_fields import AGENT_FIELDS, same_fields
from libs.contracts.agent.stored_to_letta_messages import served_messages
from libs.contracts.letta.agent_state import agent_state, timestamp
from libs.contracts.letta.blocks import block_state
from libs.contracts.tools.base_tools.catalogue import SERVER_TOOLS

# Of an agent what it says itself, not what is looked up for it.
COMPARED = (*same_fields(AGENT_FIELDS, "create", "letta_database"), "metadata", "created_at")
DEFINITIONS = (
    ("sources", "/v1/folders/", ("name", "description", "instructions", "metadata")),
    ("archives", "/v1/archives/", ("name", "description", "metadata")),
    ("groups", "/v1/groups/", ("description", "manager_type", "agent_ids")),
    ("identities", "/v1/identities/", ("identifier_key", "name", "identity_type", "project_id")),
)
COLUMNS = {"metadata": "metadata_"}

type Digests = dict[str, str]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both sides of a migration: everything of one organisation."""

    database: LettaDatabase
    org: str
    target: Target
    report: Report

    def run(self) -> None:
        """Compare everything, and put counts and hashes into the report."""
        answered = self.target.all("/v1/agents/", show_hidden_agents="true")
        self.compare("agents", self.agents(), answered, COMPARED)
        self.compare("block", self.blocks(), self.target.all("/v1/blocks/"))
        for table, path, fields in DEFINITIONS:
            rows = self.database.rows(table, OF_ORG, [self.org])
            self.compare(table, map(as_answer, rows), self.target.all(path), fields)
        self.compare("tools", self.tools(), self.custom_tools(), ("name", "source_code", "tags"))
        self.compare("runs", self.runs(), self.target.all("/v1/runs/"), ("agent_id", "created_at"))
        self.compare_by_agent("messages", self.messages, self.answered_messages)
        self.compare_by_agent("archival_passages", self.passages, self.answered_passages)

    def compare(
        self,
        table: str,
        found: Iterable[dict[str, Any]],
        answered: Iterable[dict[str, Any]],
        fields: Iterable[str] | None = None,
    ) -> None:
        """Compare the rows of a table, by some of their fields or all."""
        chosen = tuple(fields) if fields is not None else None
        self.note(table, digests(found, chosen), digests(answered, chosen))

    def note(self, table: str, found: Digests, answered: Digests) -> None:
        """Put what two sides have into the report; what is here alone is nobody's business."""
        report = self.report
        report.found[table] += len(found)
        for name, digest in found.items():
            if name not in answered:
                report.differ(table, name, "it is not here")
            elif answered[name] != digest:
                report.differ(table, name, "it is different here")
        here = {name: answered[name] for name in found if name in answered}
        report.here[table] += len(here)
        report.add_hash(report.hashes, table, digest_of(found))
        report.add_hash(report.hashes_here, table, digest_of(here))

    def compare_by_agent(
        self,
        table: str,
        found: Callable[[Row], Iterable[dict[str, Any]]],
        answered: Callable[[Row], Iterable[dict[str, Any]]],
    ) -> None:
        """Compare what agents have, one agent after the other."""
        for agent in self.agent_rows():
            self.note(table, digests(found(agent), None), digests(answered(agent), None))

    def agent_rows(self) -> Iterator[Row]:
        """The agents of the old server."""
        return self.database.rows("agents", OF_ORG, [self.org])

    def agents(self) -> Iterator[dict[str, Any]]:
        """The agents as they would be answered."""
        return (agent_state(agent_config(row)) for row in self.agent_rows())

    def blocks(self) -> Iterator[dict[str, Any]]:
        """The blocks as they would be answered; templates are in no list of blocks."""
        for row in self.database.rows("block", OF_ORG, [self.org]):
            if not row["is_template"]:
                tags = sorted(self.database.links("blocks_tags", "tag", row["id"], of="block_id"))
                yield block_state(fitting_block(block_of(row, tags)))

    def tools(self) -> Iterator[dict[str, Any]]:
        """The tools that clients made."""
        for row in self.database.rows("tools", OF_ORG, [self.org]):
            if row["tool_type"] == "custom" and row["name"] not in SERVER_TOOLS:
                yield row

    def custom_tools(self) -> Iterator[dict[str, Any]]:
        """The tools that clients made, as this server answers."""
        tools = self.target.all("/v1/tools/")
        return (tool for tool in tools if tool["tool_type"] == "custom")

    def runs(self) -> Iterator[dict[str, Any]]:
        """The runs as they would be answered."""
        for row in self.database.rows("runs", OF_ORG, [self.org]):
            yield {
                "id": row["id"],
                "agent_id": row["agent_id"],
                "created_at": timestamp(utc(row["created_at"])),
            }

    def messages(self, agent: Row) -> Iterator[dict[str, Any]]:
        """The messages of an agent as they would be answered."""
        speaks = agent["agent_type"] in SPEAKING_TYPES
        for row in self.database.rows(
            "messages", "agent_id = %s and not is_deleted", [agent["id"]], key=("sequence_id",)
        ):
            for message in messages_of(row, speaks=speaks):
                yield from map(
                    dict,
                    served_messages(message, run_id=row.get("run_id"), step_id=row["step_id"]),
                )

    def answered_messages(self, agent: Row) -> Iterator[dict[str, Any]]:
        """The messages of an agent, as this server answers."""
        return self.all_of_agent(agent, "messages")

    def passages(self, agent: Row) -> Iterator[dict[str, Any]]:
        """The passages that an agent finds."""
        archives = self.database.links("archives_agents", "archive_id", agent["id"], of="agent_id")
        for row in self.database.rows(
            "archival_passages", "archive_id = any(%s) and not is_deleted", [archives]
        ):
            yield passage(row["id"], row["text"], row["tags"], timestamp(utc(row["created_at"])))

    def answered_passages(self, agent: Row) -> Iterator[dict[str, Any]]:
        """The passages that an agent finds, as this server answers."""
        for found in self.all_of_agent(agent, "archival-memory"):
            yield passage(found["id"], found["text"], found["tags"], found["created_at"])

    def all_of_agent(self, agent: Row, name: str) -> Iterator[dict[str, Any]]:
        """Everything that a list of an agent has; nothing where the agent is not here."""
        try:
            yield from self.target.all(f"/v1/agents/{agent['id']}/{name}")
        except Missing:
            return


def passage(name: str, text: str, tags: list[str] | None, created_at: str) -> dict[str, Any]:
    """The fields of a passage that are compared."""
    return {"id": name, "text": text, "tags": tags, "created_at": created_at}


def as_answer(row: Row) -> dict[str, Any]:
    """A row with the names that its columns have in answers."""
    names = {column: name for name, column in COLUMNS.items()}
    return {names.get(column, column): value for column, value in row.items()}


def digests(rows: Iterable[dict[str, Any]], fields: tuple[str, ...] | None) -> Digests:
    """The digests that identify each row on the other side; rows of one message share an id and
    differ by their order."""
    found: Digests = {}
    seen: dict[str, int] = {}
    for row in rows:
        number = seen[row["id"]] = seen.get(row["id"], -1) + 1
        shown = row if fields is None else {name: row.get(name) for name in fields}
        name = f"{row['id']}#{number}" if number else row["id"]
        found[name] = sha256(json.dumps(shown, sort_keys=True, default=str).encode()).hexdigest()
    return found


def digest_of(found: Digests) -> str:
    """One digest of all rows."""
    lines = (f"{name} {digest}\n" for name, digest in sorted(found.items()))
    return sha256("".join(lines).encode()).hexdigest()
