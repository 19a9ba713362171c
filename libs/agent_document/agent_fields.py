"""One table of the fields of an agent: what each form calls a field, or why a form leaves it out.

The code that reads or writes a form asks this table; a field whose name is the same in all forms
needs its name alone. `docs/agent-forms.md` is generated from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

Form = Literal["create", "update", "toml", "agent_file", "template", "letta_database", "lines"]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A form does not have a field, for a reason that users read."""

    reason: str


type InForm = str | LeftOut
SAME = ""  # a form calls the field by its own name and has the value as it is


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentField:
    """A field of an agent, or a kind of thing that belongs to it.

    Args:
        create: in POST /v1/agents.
        update: in PATCH /v1/agents/{agent_id}.
        toml: in a TOML file.
        agent_file: in an `.af` file.
        template: in a version of a template.
        letta_database: in the database of a Letta server: columns, or tables.
        lines: in a whole export, a fork and an agent as of a moment.
        null_clears: whether null in an update removes the value, where it may be absent.
    """

    name: str
    create: InForm = SAME
    update: InForm = SAME
    toml: InForm = SAME
    agent_file: InForm = SAME
    template: InForm = SAME
    letta_database: InForm = SAME
    lines: InForm = SAME
    null_clears: bool = True

    def form(self, form: Form) -> InForm:
        """What the form calls the field, or why it leaves the field out."""
        found: InForm = getattr(self, form)
        return self.name if found == SAME else found


FORMS = tuple(
    each.name for each in fields(DocumentField) if each.name not in ("name", "null_clears")
)


def alike(names: str, **forms: Any) -> Iterator[DocumentField]:
    """Fields that all forms treat alike, by their names with blanks between them."""
    return (DocumentField(name=name, **forms) for name in names.split())


def same_fields(table: Iterable[DocumentField], *forms: Form) -> tuple[str, ...]:
    """The fields that each of these forms calls by the same name as the agent's state."""
    return tuple(
        field.name for field in table if all(field.form(form) == field.name for form in forms)
    )


def left_out(table: Iterable[DocumentField], form: Form) -> Mapping[str, str]:
    """The fields that a form leaves out, each with the reason."""
    found = ((field.name, field.form(form)) for field in table)
    return {name: there.reason for name, there in found if isinstance(there, LeftOut)}


NEW = LeftOut("a new agent is made, and the server gives it its own")
BY_SERVER = LeftOut("the server sets it")
KEPT = LeftOut("it never changes")
NO_RUNS = LeftOut("it is about runs, and a new agent has had none")
NO_HISTORY = LeftOut("the form says what an agent is, not what it has said or done")
DEPLOYED = LeftOut("deployments of templates set it")
TIED = LeftOut("it names something of the server that wrote the file")
ADDED = LeftOut("Letta servers have no such field")
NOT_IN_AF = LeftOut("agent files have no place for it: a whole export has it")
NOT_IN_TEMPLATES = LeftOut("templates have no place for it: set it for each agent")
NOT_IN_TOML = LeftOut("files have no such key: it stays as the server has it")
OF_REQUEST = LeftOut("it has requests of its own")
UNTIED: dict[str, Any] = {"toml": NOT_IN_TOML, "agent_file": TIED, "template": DEPLOYED}
OF_SERVER: dict[str, Any] = {
    "create": BY_SERVER, "update": BY_SERVER, "toml": NEW, "agent_file": NEW, "template": NEW,
}  # fmt: skip

AGENT_FIELDS: tuple[DocumentField, ...] = (
    *alike("id", **OF_SERVER),
    DocumentField(name="name", template="name of the template's agent"),
    DocumentField(name="system", toml="system_prompt"),
    DocumentField(name="agent_type", update=KEPT),
    DocumentField(name="llm_config", toml="model, context_window, model_settings"),
    DocumentField(name="embedding_config", toml="embedding", null_clears=False),
    DocumentField(name="compaction_settings", toml="compaction", null_clears=False),
    DocumentField(
        name="parallel_tool_calls",
        toml="model_settings.parallel_tool_calls",
        template="parallel_tool_calls, where it is off",
        letta_database=LeftOut("what was chosen cannot be told from the default: set it again"),
    ),
    *alike("response_format tool_rules"),
    DocumentField(
        name="message_ids",
        create=LeftOut("a new agent has new messages: `initial_message_sequence`"),
        update=LeftOut("changes of what the model is shown are not built yet: leave the field out"),
        toml=NO_HISTORY,
        agent_file="in_context_message_ids",
        template=NO_HISTORY,
        letta_database="messages of its conversation",
    ),
    *alike("description"),
    DocumentField(name="metadata", letta_database="metadata_"),
    DocumentField(
        name="project_id",
        agent_file=LeftOut("the import says which project: `project_id`"),
        template=LeftOut("agents get the project of the template"),
    ),
    *alike("template_id base_template_id", **UNTIED),
    *alike("deployment_id entity_id", create=DEPLOYED, update=DEPLOYED, **UNTIED),
    *alike("message_buffer_autoclear"),
    DocumentField(name="enable_sleeptime", agent_file="groups"),
    *alike(
        "last_run_completion last_run_duration_ms last_stop_reason",
        create=NO_RUNS,
        toml=NO_HISTORY,
        agent_file=NO_RUNS,
        template=NO_RUNS,
        null_clears=False,
    ),
    *alike("timezone"),
    DocumentField(name="max_files_open", toml="limits.max_files_open", null_clears=False),
    DocumentField(
        name="per_file_view_window_char_limit",
        toml="limits.per_file_view_window_char_limit",
        null_clears=False,
    ),
    DocumentField(name="hidden", template=LeftOut("lists show the agents of templates")),
    DocumentField(name="capabilities", letta_database=ADDED),
    DocumentField(name="created_by_id", letta_database="_created_by_id", **OF_SERVER),
    DocumentField(name="last_updated_by_id", letta_database="_last_updated_by_id", **OF_SERVER),
    *alike("created_at updated_at", **OF_SERVER),
    DocumentField(name="tags", letta_database="agents_tags"),
)

# In the order in which agent files have them.
BLOCK_FIELDS: tuple[DocumentField, ...] = (
    *alike("value limit"),
    *alike("project_id", **UNTIED),
    *alike("template_name is_template", toml=NOT_IN_TOML, template=DEPLOYED),
    *alike("template_id base_template_id deployment_id entity_id", **UNTIED),
    *alike("preserve_on_migration", toml=NOT_IN_TOML),
    *alike("label read_only description"),
    DocumentField(name="metadata", letta_database="metadata_"),
    *alike("hidden", toml=NOT_IN_TOML),
    DocumentField(name="id", **OF_SERVER),
    DocumentField(name="created_by_id", letta_database="_created_by_id", **OF_SERVER),
    DocumentField(name="last_updated_by_id", letta_database="_last_updated_by_id", **OF_SERVER),
    DocumentField(name="tags", toml=NOT_IN_TOML, letta_database="blocks_tags"),
)

TOOL_FIELDS: tuple[DocumentField, ...] = (
    *alike("id", **OF_SERVER),
    *alike("tool_type", toml=LeftOut("tools of files are `custom`")),
    *alike("description source_type name tags"),
    DocumentField(name="source_code", toml="source"),
    *alike("json_schema"),
    *alike("args_json_schema", toml=NOT_IN_TOML),
    *alike("return_char_limit"),
    DocumentField(name="pip_requirements", toml="packages"),
    *alike("npm_requirements", toml=NOT_IN_TOML),
    DocumentField(name="default_requires_approval", toml="requires_approval"),
    DocumentField(name="enable_parallel_execution", toml="parallel"),
    DocumentField(name="created_by_id", letta_database="_created_by_id", **OF_SERVER),
    DocumentField(name="last_updated_by_id", letta_database="_last_updated_by_id", **OF_SERVER),
    *alike("metadata_", toml=NOT_IN_TOML, agent_file=LeftOut("servers keep notes of their own")),
    *alike("project_id", **UNTIED),
)

# What belongs to an agent and is a thing of its own.
BELONGINGS: tuple[DocumentField, ...] = (
    DocumentField(
        name="blocks", create="memory_blocks, block_ids", update="block_ids", toml="memory",
        letta_database="block, block_history, blocks_agents",
    ),
    DocumentField(
        name="tools", create="tools, tool_ids", update="tool_ids", toml="tools, tool",
        template="tool_ids", letta_database="tools, tools_agents",
    ),
    DocumentField(
        name="mcp_servers", create=OF_REQUEST, update=OF_REQUEST, letta_database="mcp_server",
        template=LeftOut("a template names tools of servers that are here"),
        lines=LeftOut("it belongs to the server: add it there, and attach its tools"),
    ),
    DocumentField(
        name="secrets", agent_file="secrets, without their values", template="tool_variables",
        letta_database="agent_environment_variables",
    ),
    DocumentField(
        name="sources", create="folder_ids", update="folder_ids", toml="folders",
        template="folder_ids", letta_database="sources, sources_agents", lines="folder",
    ),
    DocumentField(
        name="files", create=OF_REQUEST, update=OF_REQUEST, toml=NO_HISTORY, template=NO_HISTORY,
        letta_database="files, file_contents", lines="file_text",
    ),
    DocumentField(
        name="archives", create=OF_REQUEST, update=OF_REQUEST, toml=NO_HISTORY,
        agent_file=NOT_IN_AF, template=NO_HISTORY, letta_database="archives, archival_passages",
    ),
    DocumentField(
        name="identities", create="identity_ids", update="identity_ids",
        toml=LeftOut("the server knows whom an agent works for: attach them there"),
        agent_file=LeftOut("identities are not in the file: attach them to the agent"),
        template="identity_ids",
    ),
    DocumentField(
        name="managed_group", create=OF_REQUEST, update=OF_REQUEST, toml="groups",
        agent_file="groups", template="group", letta_database="groups", lines="group",
    ),
    DocumentField(
        name="schedules", create=OF_REQUEST, update=OF_REQUEST, agent_file=NOT_IN_AF,
        template=NOT_IN_TEMPLATES, letta_database=ADDED, lines="schedule",
    ),
    DocumentField(
        name="permissions", create=OF_REQUEST, update=OF_REQUEST, agent_file=NOT_IN_AF,
        template=NOT_IN_TEMPLATES, letta_database=ADDED,
        lines=LeftOut("each server says for itself what tools may do: set it there"),
    ),
    DocumentField(
        name="conversations", create=OF_REQUEST, update=OF_REQUEST, toml=NO_HISTORY,
        agent_file="the agent's own", template=NO_HISTORY, lines="history",
    ),
    DocumentField(
        name="messages", create="initial_message_sequence", update=OF_REQUEST, toml=NO_HISTORY,
        template=NO_HISTORY, lines="history",
    ),
    DocumentField(
        name="runs", create=NO_RUNS, update=BY_SERVER, toml=NO_HISTORY, agent_file=NOT_IN_AF,
        template=NO_HISTORY, letta_database="runs, steps", lines="history",
    ),
    DocumentField(
        name="pending_approval", create=NO_RUNS, update=BY_SERVER, toml=NO_HISTORY,
        agent_file="messages", template=NO_HISTORY, letta_database="messages", lines="history",
    ),
)  # fmt: skip
