"""Things that agents of the old server use, as the fields of the commands that make them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256

from pydantic_core import to_json

from deploy.letta_migration.agents import CUSTOM_TYPE, MCP_TYPE, embedding_config, fields_of
from deploy.letta_migration.messages import utc
from deploy.letta_migration.progress import Progress
from deploy.letta_migration.report import Report
from deploy.letta_migration.secrets import Closed, Opener
from deploy.letta_migration.source import LettaDatabase, Row
from libs.agent_document.agent_fields import GROUP_FIELDS, TOOL_FIELDS
from libs.contracts.agent_file import Definition, DefinitionKind
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.tools import RETURN_CHARS_MAX, ToolState
from libs.contracts.tools.base_tools.catalogue import BASE_TOOLS, SERVER_TOOLS
from libs.contracts.tools.mcp_servers import sealed_fields
from libs.encryption.sealer import Sealer

# The models that embed here, by their handles, each with its configuration.
type Embeddings = Mapping[str, JsonObject]

VARIABLES = "sandbox_environment_variables"
OF_ORG = "organization_id = %s and not is_deleted"


class Definitions:
    """Takes over what agents use: those that are new or have changed."""

    def __init__(
        self,
        database: LettaDatabase,
        org: str,
        progress: Progress,
        report: Report,
        opener: Opener,
        sealer: Sealer | None,
        embeddings: Embeddings | None = None,
    ) -> None:
        self.embeddings = embeddings
        self.database = database
        self.org = org
        self.progress = progress
        self.report = report
        self.opener = opener
        self.sealer = sealer

    def lines(self) -> Iterator[Definition]:
        """The definitions, in an order in which each comes after what it needs."""
        of: list[tuple[DefinitionKind, str, Callable[[Row], JsonObject | None]]] = [
            ("sandbox_config", "sandbox_configs", self.sandbox_config),
            ("mcp_server", "mcp_server", self.mcp_server),
            ("tool", "tools", self.tool),
            ("folder", "sources", self.folder),
            ("archive", "archives", archive),
            ("identity", "identities", identity),
            ("group", "groups", self.group),
        ]
        yield from self.projects()
        for kind, table, value_of in of:
            for row in self.database.rows(table, OF_ORG, [self.org], key=("created_at", "id")):
                value = value_of(row)
                if value is None:
                    continue
                definition = Definition(
                    of=kind,
                    id=row["id"],
                    value=value,
                    attached_to=tuple(self.agents_of(kind, row["id"])),
                )
                if self.progress.is_new(kind, row["id"], digest_of(definition)):
                    self.report.count(table)
                    variables = value.get("variables")
                    if isinstance(variables, dict) and variables:
                        self.report.count(VARIABLES, len(variables))
                    yield definition.model_copy(update={"value": self.seal_secrets(kind, value)})

    def seal_secrets(self, kind: DefinitionKind, value: JsonObject) -> JsonObject:
        """The fields with their secrets sealed: each time another text, so that they are compared
        before."""
        if self.sealer is None:
            return value
        if kind == "mcp_server":
            assert isinstance(value["config"], dict), "a server is reached somehow"
            return {**value, "config": sealed_fields(self.sealer.seal, value["config"])}
        if kind == "sandbox_config":
            assert isinstance(value["variables"], dict), "there may be none"
            seal = self.sealer.seal
            variables: JsonObject = {
                name: seal(str(text)) for name, text in value["variables"].items()
            }
            return {**value, "variables": variables}
        return value

    def agents_of(self, kind: DefinitionKind, name: str) -> list[str]:
        """The agents that have a thing."""
        tables = {
            "folder": ("sources_agents", "source_id"),
            "archive": ("archives_agents", "archive_id"),
            "identity": ("identities_agents", "identity_id"),
        }
        if kind not in tables:
            return []
        table, of = tables[kind]
        return self.database.links(table, "agent_id", name, of=of)

    def projects(self) -> Iterator[Definition]:
        """The projects that agents name: the old server has no table of them."""
        rows = self.database.connection.execute(
            "select project_id, array_agg(id order by created_at, id) as agents from agents"
            " where organization_id = %s and not is_deleted and project_id is not null"
            " group by project_id order by project_id",
            [self.org],
        )
        for row in rows.fetchall():
            definition = Definition(
                of="project",
                id=row["project_id"],
                value={"name": row["project_id"]},
                attached_to=tuple(row["agents"]),
            )
            if self.progress.is_new("project", definition.id, digest_of(definition)):
                yield definition

    def tool(self, row: Row) -> JsonObject | None:
        """A tool that a client made."""
        kind, name = row["tool_type"], row["name"]
        if kind == CUSTOM_TYPE and name not in SERVER_TOOLS:
            return {"tool": tool_state(row).model_dump(mode="json")}
        if kind == MCP_TYPE:
            reason = "its MCP server is asked again for its tools: attach them then"
            self.report.leave("tools", f"{row['id']} {name}", reason)
        elif kind == CUSTOM_TYPE:
            reason = "a tool of the server has its name here: make it again by another name"
            self.report.leave("tools", f"{row['id']} {name}", reason)
        elif name in BASE_TOOLS:
            self.report.mend("A base tool of the old server is this server's tool of its name")
        else:
            self.report.leave("tools", f"{row['id']} {name}", f"there are no `{kind}` tools here")
        return None

    def mcp_server(self, row: Row) -> JsonObject | None:
        """An MCP server, and how it is reached; what cannot be opened stays behind."""
        stdio = row["stdio_config"] or {}
        fields: JsonObject = {"transport": row["server_type"], "url": row["server_url"] or ""}
        if stdio:
            fields |= {
                "command": stdio.get("command") or "",
                "args": stdio.get("args") or [],
                "env": stdio.get("env"),
            }
        token = self.open_value(row, "token")
        if token:
            fields |= {"auth_header": "Authorization", "auth_token": bearer(token)}
        headers = self.open_value(row, "custom_headers")
        if headers:
            fields["headers"] = json.loads(headers)
        if self.sealer is None:
            for secret in ("auth_token", "headers", "env"):
                if fields.pop(secret, None):
                    reason = f"`{secret}` cannot be sealed: HEELER_ENCRYPTION_KEYS is not known"
                    self.report.leave("mcp_server", row["id"], reason)
        return {"name": row["server_name"], "config": fields}

    def open_value(self, row: Row, column: str) -> str | None:
        """A value of a row that may be encrypted; None where it is not there or stays closed."""
        plain = row.get(column)
        try:
            return self.opener.open(
                row.get(f"{column}_enc"), json.dumps(plain) if isinstance(plain, dict) else plain
            )
        except Closed as closed:
            self.report.leave("mcp_server", row["id"], f"`{column}`: {closed}")
            return None

    def sandbox_config(self, row: Row) -> JsonObject | None:
        """The settings of the sandbox: there is one of a kind, and it is local."""
        if str(row["type"]).lower() != "local":
            reason = f"tools run in no `{str(row['type']).lower()}` sandbox here"
            self.report.leave("sandbox_configs", row["id"], reason)
            return None
        variables: JsonObject = {}
        for variable in self.database.rows(
            VARIABLES,
            "sandbox_config_id = %s and not is_deleted",
            [row["id"]],
            key=("created_at", "id"),
        ):
            value = self.variable(variable)
            if value is not None:
                variables[variable["key"]] = value
        return {"config": row["config"], "variables": variables}

    def variable(self, row: Row) -> str | None:
        """A variable of the sandbox; None where it stays behind."""
        try:
            value = self.opener.open(row.get("value_enc"), row["value"]) or ""
        except Closed as closed:
            self.report.leave(VARIABLES, row["key"], str(closed))
            return None
        if self.sealer is None:
            self.report.leave(VARIABLES, row["key"], "HEELER_ENCRYPTION_KEYS is not known")
            return None
        return value

    def folder(self, row: Row) -> JsonObject | None:
        """A folder, whose files are embedded by the same model as before if it is known here, else
        by the default."""
        config = embedding_config(row["embedding_config"])
        fields: JsonObject | None = config.model_dump(mode="json") if config else None
        if config is not None and self.embeddings is not None:
            fields = self.embeddings.get(config.handle or "")
            if fields is None:
                self.report.mend("A folder whose model is not known here is embedded by another")
        return {
            "name": row["name"],
            "description": row["description"],
            "instructions": row["instructions"],
            "metadata": row["metadata_"],
            "embedding_chunk_size": config.embedding_chunk_size if config else None,
            "embedding_config": fields,
        }

    def group(self, row: Row) -> JsonObject | None:
        """A group, with the blocks that its agents share."""
        shared = self.database.links("groups_blocks", "block_id", row["id"], of="group_id")
        return {"config": {**fields_of(row, GROUP_FIELDS), "shared_block_ids": [*shared]}}


def digest_of(definition: Definition) -> str:
    """A digest that shows whether a thing has changed since it was taken over."""
    return sha256(to_json(definition)).hexdigest()


def bearer(token: str) -> str:
    """A token as the value of its header."""
    return token if token.lower().startswith("bearer ") else f"Bearer {token}"


def tool_state(row: Row) -> ToolState:
    """A tool that a client made."""
    return ToolState.model_validate(
        {
            **fields_of(row, TOOL_FIELDS),
            "return_char_limit": row["return_char_limit"] or RETURN_CHARS_MAX,
        }
    )


def archive(row: Row) -> JsonObject | None:
    """The fields of an archive."""
    config = embedding_config(row.get("embedding_config"))
    return {
        "name": row["name"],
        "description": row["description"],
        "metadata": row["metadata_"],
        "embedding_config": config.model_dump(mode="json") if config else None,
        "created_at": utc(row["created_at"]).isoformat(),
    }


def identity(row: Row) -> JsonObject | None:
    """The fields of an identity."""
    names = ("id", "identifier_key", "name", "identity_type", "project_id")
    fields: JsonObject = {name: row[name] for name in names}
    return {"identity": {**fields, "properties": row["properties"] or []}}
