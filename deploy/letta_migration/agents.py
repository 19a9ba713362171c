"""Rows of the old server's agents as histories of agents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from pydantic_core import to_json

from deploy.letta_migration.histories import History
from deploy.letta_migration.messages import utc
from deploy.letta_migration.progress import Progress
from deploy.letta_migration.report import Report
from deploy.letta_migration.secrets import Closed, Opener
from deploy.letta_migration.source import LettaDatabase, Row
from deploy.letta_migration.target_versions import TargetVersions
from libs.agent_document.agent_fields import AGENT_FIELDS, DocumentField, form_names
from libs.contracts.agent.agents import AgentCreated, AgentSecretsReplaced, AgentUpdated
from libs.contracts.letta.agent_state import AgentConfig
from libs.contracts.letta.model_configs import EmbeddingConfig, LLMConfig
from libs.contracts.tools.base_tools.catalogue import BASE_TOOLS
from libs.encryption.sealer import Sealer

CHANGED_HERE = "it was changed here since the last pass, and stays as it is here"
CUSTOM_TYPE = "custom"
MCP_TYPE = "external_mcp"


@dataclass(frozen=True, slots=True)
class ToolNames:
    """The tools of the old server: what each is called, and the id that it has here; none for one
    that is not taken over."""

    names: Mapping[str, str]
    ids: Mapping[str, str]

    @classmethod
    def of(cls, database: LettaDatabase, org: str) -> ToolNames:
        """The tools of an organisation."""
        names, ids = {}, {}
        for row in database.rows("tools", "organization_id = %s and not is_deleted", [org]):
            names[row["id"]] = row["name"]
            if row["tool_type"] == CUSTOM_TYPE and row["name"] not in BASE_TOOLS:
                ids[row["id"]] = row["id"]
            elif row["tool_type"] != MCP_TYPE and row["name"] in BASE_TOOLS:
                ids[row["id"]] = BASE_TOOLS[row["name"]].id
        return cls(names, ids)


def llm_config(fields: Row) -> LLMConfig:
    """The config of an agent's language model, as far as it is known here."""
    known = {name: value for name, value in fields.items() if name in LLMConfig.model_fields}
    return LLMConfig.model_validate(known)


def embedding_config(fields: Row | None) -> EmbeddingConfig | None:
    """The config of an agent's embeddings, as far as it is known here."""
    if not fields:
        return None
    known = {name: value for name, value in fields.items() if name in EmbeddingConfig.model_fields}
    return EmbeddingConfig.model_validate(known)


def fields_of(row: Row, table: Iterable[DocumentField]) -> dict[str, Any]:
    """The values of a row, by their names here; without nulls, and without the columns of another
    table."""
    columns = form_names(table, "letta_database").items()
    return {
        name: row[column]
        for name, column in columns
        if "." not in column and row[column] is not None
    }


def agent_config(row: Row) -> AgentConfig:
    """Everything that an agent's row says."""
    model = llm_config(row["llm_config"])
    completion = row["last_run_completion"]
    return AgentConfig.model_validate(
        {
            **fields_of(row, AGENT_FIELDS),
            "name": row["name"] or row["id"],
            "system": row["system"] or "",
            "llm_config": model,
            "embedding_config": embedding_config(row["embedding_config"]),
            "tool_rules": row["tool_rules"] or [],
            "timezone": row["timezone"] or "UTC",
            "last_run_completion": utc(completion) if completion else None,
            "created_at": utc(row["created_at"]),
            "updated_at": utc(row["updated_at"] or row["created_at"]),
        }
    )


class Agents:
    """Takes over agents, after everything that they consist of."""

    def __init__(
        self,
        database: LettaDatabase,
        progress: Progress,
        report: Report,
        tools: ToolNames,
        opener: Opener,
        sealer: Sealer | None,
        target_versions: TargetVersions,
    ) -> None:
        self.target_versions = target_versions
        self.database = database
        self.progress = progress
        self.report = report
        self.tools = tools
        self.opener = opener
        self.sealer = sealer

    def history(self, row: Row) -> History:
        """The events of an agent that are new."""
        mine = self.progress.agent(row["id"])
        history = History("agent", row["id"], mine.version)
        fields = self.fields(row)
        digest = sha256(to_json(fields)).hexdigest()
        config: AgentConfig = fields["config"]
        if mine.version == 0:
            history.add(AgentCreated, config.created_at, own_block_ids=[], **fields)
        elif digest != mine.digest:
            history.add(AgentUpdated, config.updated_at, changed=["tags", "config"], **fields)
        secrets, closed = self.secrets(row["id"])
        secrets_digest = sha256(to_json(secrets)).hexdigest() if secrets else ""
        if lost := sorted(closed & {*mine.secret_names}):
            secrets_digest = mine.secrets  # they were open once: what is there stays
            reason = f"{', '.join(lost)} cannot be opened any more: all of them stay as they were"
            self.report.leave("agent_environment_variables", row["id"], reason)
        if secrets_digest != mine.secrets and self.sealer is not None:
            sealed = {name: self.sealer.seal(value) for name, value in secrets.items()}
            history.add(AgentSecretsReplaced, config.updated_at, secrets=sealed)
        if history.events and self.was_changed_here(row["id"], mine.version):
            self.report.leave("agents", row["id"], CHANGED_HERE)
            return History("agent", row["id"], mine.version)
        if history.events:
            self.report.count("agents")
        if secrets_digest != mine.secrets:
            self.report.count("agent_environment_variables", len(secrets))
        if secrets_digest != mine.secrets:
            mine.secret_names = sorted(secrets)
        mine.digest, mine.secrets = digest, secrets_digest if self.sealer is not None else ""
        mine.version = history.version
        self.progress.keep_agent(row["id"], mine)
        return history

    def was_changed_here(self, agent_id: str, known: int) -> bool:
        """Whether this server has changed an agent since the last pass."""
        return known > 0 and self.target_versions.version(agent_id, agent_id, known) != known

    def fields(self, row: Row) -> dict[str, Any]:
        """The present fields of an agent, without its secrets."""
        tool_ids = []
        for tool_id in self.database.links("tools_agents", "tool_id", row["id"], of="agent_id"):
            if tool_id in self.tools.ids:
                tool_ids.append(tool_id)
                continue
            name = self.tools.names.get(tool_id, tool_id)
            self.report.leave("tools_agents", f"{row['id']} {name}", "this tool is not here")
        return {
            "config": agent_config(row),
            "tools": [self.tools.names[tool_id] for tool_id in tool_ids],
            "tool_ids": [self.tools.ids[tool_id] for tool_id in tool_ids],
            "tags": sorted(self.database.links("agents_tags", "tag", row["id"], of="agent_id")),
            "block_ids": [
                block_id
                for block_id in self.database.links(
                    "blocks_agents", "block_id", row["id"], of="agent_id"
                )
                if self.progress.block(block_id).version > 0
            ],
        }

    def secrets(self, agent_id: str) -> tuple[dict[str, str], set[str]]:
        """The variables of an agent that can be opened, and the names of the others."""
        opened: dict[str, str] = {}
        closed: set[str] = set()
        table = "agent_environment_variables"
        for row in self.database.rows(
            table, "agent_id = %s and not is_deleted", [agent_id], key=("created_at", "id")
        ):
            try:
                value = self.opener.open(row.get("value_enc"), row["value"])
            except Closed as why:
                self.report.leave(table, f"{agent_id} {row['key']}", str(why))
                closed.add(row["key"])
                continue
            if self.sealer is None:
                reason = "it cannot be sealed: HEELER_ENCRYPTION_KEYS of this server is not known"
                self.report.leave(table, f"{agent_id} {row['key']}", reason)
                continue
            opened[row["key"]] = value or ""
        return opened, closed
