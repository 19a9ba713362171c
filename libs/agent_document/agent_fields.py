"""One table of the fields of an agent: what each form calls a field, or why a form leaves it out.

The code that reads or writes a form asks this table; a field whose name is the same in all forms
needs its name alone. docs/agent-forms.md is generated from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, get_args

# Requests that make and change an agent, TOML files, `.af` files, versions of templates, columns
# and tables of a Letta server, and the lines of a whole export, a fork and an agent as of a moment.
Form = Literal["create", "update", "toml", "agent_file", "template", "letta_database", "lines"]
FORMS: tuple[Form, ...] = get_args(Form)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A form does not have a field, for a reason that users read."""

    reason: str


type InForm = str | LeftOut
SAME = ""  # a form calls the field by its own name


@dataclass(frozen=True, slots=True)
class DocumentField:
    """A field of an agent, or what belongs to it, with its name in each form. Whether null in an
    update removes the value says `null_clears`."""

    name: str
    _: KW_ONLY
    create: InForm = SAME
    update: InForm = SAME
    toml: InForm = SAME
    agent_file: InForm = SAME
    template: InForm = SAME
    letta_database: InForm = SAME
    lines: InForm = SAME
    null_clears: bool = True

    def form(self, form: Form) -> InForm:
        """The form's name for the field, or the reason why it leaves the field out."""
        found: InForm = getattr(self, form)
        return self.name if found == SAME else found


def alike(names: str, **forms: Any) -> Iterator[DocumentField]:
    """Fields that all forms treat alike, by their names with blanks between them."""
    return (DocumentField(name, **forms) for name in names.split())


def same_fields(table: Iterable[DocumentField], *forms: Form) -> tuple[str, ...]:
    """The fields that each of these forms calls by the same name as the agent's state."""
    return tuple(
        field.name for field in table if all(field.form(form) == field.name for form in forms)
    )


def same_values(table: Iterable[DocumentField], source: object, *forms: Form) -> dict[str, Any]:
    """The values of these fields in a document or an object, without nulls."""
    document = source if isinstance(source, Mapping) else None
    found = (
        (name, getattr(source, name) if document is None else document.get(name))
        for name in same_fields(table, *forms)
    )
    return {name: value for name, value in found if value is not None}


def form_names(table: Iterable[DocumentField], form: Form) -> Mapping[str, str]:
    """The fields that a form has, each with what the form calls it."""
    found = ((field.name, field.form(form)) for field in table)
    return {name: there for name, there in found if isinstance(there, str)}


def left_out(table: Iterable[DocumentField], form: Form) -> Mapping[str, str]:
    """The fields that a form leaves out, each with the reason."""
    found = ((field.name, field.form(form)) for field in table)
    return {name: there.reason for name, there in found if isinstance(there, LeftOut)}


NEW = LeftOut("each one that is made gets its own from the server")
KEPT = LeftOut("it never changes")
NO_RUNS = LeftOut("it is about runs, and a new agent has had none")
NO_HISTORY = LeftOut("the form says what an agent is, not what it has said or done")
DEPLOYED = LeftOut("deployments of templates set it")
TIED = LeftOut("it names something of the server that wrote the file")
ADDED = LeftOut("Letta servers have none")
NOT_IN_AF = LeftOut("agent files have no place for it")
NOT_IN_TEMPLATES = LeftOut("templates have no place for it: set it for each agent")
NOT_IN_TOML = LeftOut("TOML files have no such key: it stays as the server has it")
OF_REQUEST = LeftOut("it has requests of its own")
NOT_SHOWN = LeftOut("Letta servers show none")
REQUESTS: dict[str, Any] = {"create": OF_REQUEST, "update": OF_REQUEST}
HISTORY: dict[str, Any] = {"toml": NO_HISTORY, "template": NO_HISTORY}
UNTIED: dict[str, Any] = {"toml": NOT_IN_TOML, "agent_file": TIED, "template": DEPLOYED}
OF_SERVER: dict[str, Any] = dict.fromkeys(("create", "toml", "agent_file", "template"), NEW)
OF_SERVER |= {"update": LeftOut("the server sets it")}

AGENT_FIELDS: tuple[DocumentField, ...] = (
    *alike("id", **OF_SERVER),
    DocumentField("name", template="name of the template's agent"),
    DocumentField("system", toml="system_prompt"),
    DocumentField("agent_type", update=KEPT),
    DocumentField("llm_config", toml="model, context_window, model_settings"),
    DocumentField("embedding_config", toml="embedding", null_clears=False),
    DocumentField("compaction_settings", toml="compaction", null_clears=False),
    DocumentField(
        "parallel_tool_calls",
        toml="model_settings.parallel_tool_calls", template="parallel_tool_calls, where it is off",
        letta_database=LeftOut("Letta does not show whether it was chosen: set it again"),
    ),
    *alike("response_format tool_rules"),
    DocumentField(
        "message_ids",
        create=LeftOut("a new agent has new messages: `initial_message_sequence`"),
        update=LeftOut("changes of what the model is shown are not built yet: leave the field out"),
        toml=NO_HISTORY,
        agent_file="in_context_message_ids",
        template=NO_HISTORY,
        letta_database="messages.id",
    ),
    *alike("description"),
    DocumentField("metadata", letta_database="metadata_"),
    DocumentField(
        "project_id",
        agent_file=LeftOut("the import says which project: `project_id`"),
        template=LeftOut("agents get the project of the template"),
    ),
    *alike("template_id base_template_id", **UNTIED),
    *alike("deployment_id entity_id", create=DEPLOYED, update=DEPLOYED, **UNTIED),
    *alike("message_buffer_autoclear"),
    DocumentField("enable_sleeptime", agent_file="groups"),
    *alike(
        "last_run_completion last_run_duration_ms last_stop_reason",
        create=NO_RUNS, agent_file=NO_RUNS, null_clears=False, **HISTORY,
    ),
    *alike("timezone"),
    DocumentField("max_files_open", toml="limits.max_files_open", null_clears=False),
    DocumentField(
        "per_file_view_window_char_limit", null_clears=False,
        toml="limits.per_file_view_window_char_limit",
    ),
    DocumentField("hidden", template=LeftOut("lists show the agents of templates")),
    DocumentField("capabilities", letta_database=ADDED),
    DocumentField("created_by_id", letta_database="_created_by_id", **OF_SERVER),
    DocumentField("last_updated_by_id", letta_database="_last_updated_by_id", **OF_SERVER),
    *alike("created_at updated_at", **OF_SERVER),
    DocumentField("tags", letta_database="agents_tags.tag"),
)  # fmt: skip

# In the order in which agent files have them.
BLOCK_FIELDS: tuple[DocumentField, ...] = (
    *alike("value limit"),
    *alike("project_id", **UNTIED),
    *alike("template_name is_template", toml=NOT_IN_TOML, template=DEPLOYED),
    *alike("template_id base_template_id deployment_id entity_id", **UNTIED),
    *alike("preserve_on_migration", toml=NOT_IN_TOML),
    *alike("label read_only description"),
    DocumentField("metadata", letta_database="metadata_"),
    *alike("hidden", toml=NOT_IN_TOML),
    *alike("id", **OF_SERVER),
    *alike("created_by_id last_updated_by_id", letta_database=NOT_SHOWN, **OF_SERVER),
    DocumentField("tags", toml=NOT_IN_TOML, letta_database="blocks_tags.tag"),
)

TOOL_FIELDS: tuple[DocumentField, ...] = (
    *alike("id", **OF_SERVER),
    *alike("tool_type", toml=LeftOut("tools of files are `custom`")),
    *alike("description source_type name tags"),
    DocumentField("source_code", toml="source"),
    *alike("json_schema"),
    *alike("args_json_schema", toml=NOT_IN_TOML),
    *alike("return_char_limit"),
    DocumentField("pip_requirements", toml="packages"),
    *alike("npm_requirements", toml=NOT_IN_TOML),
    DocumentField("default_requires_approval", toml="requires_approval"),
    DocumentField("enable_parallel_execution", toml="parallel"),
    DocumentField("created_by_id", letta_database="_created_by_id", **OF_SERVER),
    DocumentField("last_updated_by_id", letta_database="_last_updated_by_id", **OF_SERVER),
    *alike("metadata_", toml=NOT_IN_TOML, agent_file=LeftOut("servers keep notes of their own")),
    *alike("project_id", **UNTIED),
)

NAMED = LeftOut("TOML files name folders that the server has")
FOLDER_FIELDS: tuple[DocumentField, ...] = (
    *alike("name", toml="folders"),
    *alike("description instructions", toml=NAMED),
    DocumentField("metadata", toml=NAMED, letta_database="metadata_"),
    *alike("id", toml=NAMED, agent_file=NEW),
    *alike("embedding_config", toml=NAMED),
    *alike("organization_id", toml=NAMED, agent_file=NEW, letta_database=NEW, lines=NEW),
    *alike(
        "created_by_id last_updated_by_id",
        toml=NAMED, agent_file=NEW, letta_database=NEW, lines=NEW,
    ),
)  # fmt: skip
ADDED_TO_GROUPS: dict[str, Any] = {
    "agent_file": NOT_IN_AF, "template": NOT_IN_TEMPLATES, "letta_database": ADDED,
}  # fmt: skip
GROUP_FIELDS: tuple[DocumentField, ...] = (
    *alike("name", **ADDED_TO_GROUPS),
    *alike("description", template=NOT_IN_TEMPLATES),
    DocumentField(
        "agent_ids", toml=LeftOut("the file of each member names the group"), template="agents"
    ),
    DocumentField("manager_type", agent_file="manager_config", template="type"),
    DocumentField(
        "manager_agent_id", toml="role", agent_file="manager_config", template="manager_entity_id"
    ),
    *alike("termination_token max_turns", agent_file="manager_config"),
    *alike("hops_max", **ADDED_TO_GROUPS),
    *alike("sleeptime_agent_frequency", agent_file="manager_config"),
    *alike("turns_counter last_processed_message_id", agent_file=NO_RUNS, **HISTORY),
    *alike(
        "max_message_buffer_length min_message_buffer_length",
        toml=NOT_IN_TOML, agent_file="manager_config",
    ),
    DocumentField(
        "shared_block_ids", toml="memory.shared", template="blocks of several agents",
        letta_database="groups_blocks.block_id",
    ),
    *alike("shared_state_mode", **ADDED_TO_GROUPS),
    *alike("metadata", toml=NOT_IN_TOML, **ADDED_TO_GROUPS),
    *alike("project_id template_id base_template_id deployment_id", **UNTIED),
    *alike("hidden", toml=NOT_IN_TOML, template=NOT_IN_TEMPLATES),
)  # fmt: skip
# Of all forms, only TOML files and whole exports have schedules.
SCHEDULE_FIELDS: tuple[DocumentField, ...] = (
    *alike("id agent_id created_at", toml=NEW),
    *alike("name"),
    *alike("schedule_type", toml="at, cron or every"),
    *alike("scheduled_at", toml="at"),
    *alike("cron_expression", toml="cron"),
    *alike("timezone"),
    *alike("action", toml="message, action"),
    *alike("conversation_id missed missed_slots_max if_active retries_max"),
    *alike("client_fields", toml=NOT_IN_TOML),
)

# What belongs to an agent and is a thing of its own.
BELONGINGS: tuple[DocumentField, ...] = (
    DocumentField(
        "blocks", create="memory_blocks, block_ids", update="block_ids", toml="memory",
        letta_database="block, block_history, blocks_agents", lines="history",
    ),
    DocumentField(
        "tools", create="tools, tool_ids", update="tool_ids", toml="tools, tool",
        template="tool_ids", letta_database="tools, tools_agents", lines="tool",
    ),
    DocumentField(
        "mcp_servers", letta_database="mcp_server", **REQUESTS,
        template=LeftOut("a template names tools of servers that are here"),
        lines=LeftOut("it belongs to the server: add it there, and attach its tools"),
    ),
    DocumentField(
        "secrets", agent_file="secrets, without their values", template="tool_variables",
        letta_database="agent_environment_variables",
    ),
    DocumentField(
        "sources", create="folder_ids", update="folder_ids", toml="folders",
        template="folder_ids", letta_database="sources, sources_agents", lines="folder",
    ),
    DocumentField(
        "files", letta_database="files, file_contents", lines="file_text", **REQUESTS, **HISTORY
    ),
    DocumentField(
        "archives", agent_file=NOT_IN_AF, letta_database="archives, archival_passages",
        lines="archive, history", **REQUESTS, **HISTORY,
    ),
    DocumentField(
        "identities", create="identity_ids", update="identity_ids", template="identity_ids",
        toml=LeftOut("the server knows whom an agent works for: attach them there"),
        agent_file=LeftOut("identities are not in the file: attach them to the agent"),
        lines="identity",
    ),
    DocumentField(
        "managed_group", toml="groups", agent_file="groups", template="group",
        letta_database="groups", lines="group", **REQUESTS,
    ),
    DocumentField(
        "schedules", agent_file=NOT_IN_AF, template=NOT_IN_TEMPLATES, letta_database=ADDED,
        lines="schedule", **REQUESTS,
    ),
    DocumentField(
        "permissions", agent_file=NOT_IN_AF, template=NOT_IN_TEMPLATES, letta_database=ADDED,
        lines=LeftOut("each server says for itself what tools may do: set it there"), **REQUESTS,
    ),
    DocumentField(
        "conversations", agent_file="messages, of the agent's own", lines="history",
        **REQUESTS, **HISTORY,
    ),
    DocumentField(
        "messages", create="initial_message_sequence", update=OF_REQUEST, lines="history",
        **HISTORY,
    ),
    DocumentField(
        "runs", agent_file=NOT_IN_AF, letta_database="runs, steps", lines="history",
        **REQUESTS, **HISTORY,
    ),
    DocumentField(
        "pending_approval", agent_file="messages", letta_database="messages", lines="history",
        **REQUESTS, **HISTORY,
    ),
)  # fmt: skip
