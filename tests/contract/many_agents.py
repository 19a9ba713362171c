"""Rows of many agents and of all that each of them has, as the projections write them.

One of the oldest is unlike all others: what has its name, its tags, its words or its state is found
by no look at the newest.
"""

from __future__ import annotations

import psycopg
from pydantic_core import to_json

from libs.contracts.agent.agents import AgentCreated
from libs.contracts.agent.conversations import main_conversation
from libs.contracts.bus_messages import DEFAULT_ORG as ORG
from services.agent.projections.agents import agent_documents
from tests.contract.as_of_histories import example

UNLIKE = 7  # the number of the agent that is unlike the others
RARE = f"n = {UNLIKE}"
AT = "timestamptz '2026-01-01' + n * interval '1 second'"
UUID_END = "-0000-4000-8000-000000000000"


def id_of(kind: str, number: int = UNLIKE) -> str:
    """The id of something of the agent of a number."""
    return f"{kind}-{number:08x}{UUID_END}"


def sql_id(kind: str, number: str = "n") -> str:
    """The same as an SQL expression."""
    return f"'{kind}-' || lpad(to_hex({number}), 8, '0') || '{UUID_END}'"


def unlike(rare: str, others: str = "null") -> str:
    """What the one has, and what all others have."""
    return f"case when {RARE} then {rare} else {others} end"


AGENT = sql_id("agent")
CONVERSATION = unlike(f"'{main_conversation(id_of('agent'))}'", f"'conv-' || {sql_id('agent')}")
EVENT = (
    "insert into {service}.events overriding system value select {base} * 1000000::bigint + n,"
    " pg_current_xact_id(), {aggregate}, {version}, '{topic}', 1, '{org}', {about}, {payload},"
    " '{{}}', " + AT
)


def event(
    service: str, base: int, aggregate: str, topic: str, payload: str = "'{}'", about: str = ""
) -> str:
    """The statement for an event of each agent; `base` tells its positions and its version."""
    return EVENT.format(
        **{"service": service, "base": base, "aggregate": aggregate, "version": base},
        **{"topic": topic, "org": ORG, "about": about or aggregate, "payload": payload},
    )


def fields(**expressions: str) -> str:
    """A JSON object of SQL expressions."""
    pairs = ", ".join(f"'{name}', {expression}" for name, expression in expressions.items())
    return f"jsonb_build_object({pairs})"


def literal(text: str, behind: str = "") -> str:
    """A text as an SQL expression."""
    return f"'{text.replace("'", "''")}'{behind}"


# What an agent is served as; its id is always the same one.
AS_CREATED = agent_documents(example(AgentCreated).config)
# The values of a row of each table for the agent `n`, in the order of its columns.
ROWS = {
    "agent.agents": f"{AGENT}, '{ORG}', {AT}, {AT}, 'Agent ' || n, {CONVERSATION},"
    f" array[{sql_id('block')}] || {unlike("'{}'::text[]", f'array[{sql_id("block", "0")}]')},"
    f" array['all'] || {unlike("array['rare']", "array['tag-' || n % 50]")}, '[]', "
    + literal(to_json(AS_CREATED["fields"]).decode(), "::jsonb || ")
    + fields(
        description=unlike("'knows the zebra well'", "'an agent like any other'"),
        template_id=unlike("'template-rare'"),
        base_template_id=unlike("'base-rare'"),
        created_by_id=unlike("'user-rare'", "'user-1'"),
        project_id=unlike(sql_id("project")),
    )
    + ", "
    + literal(str(AS_CREATED["body"])),
    "agent.agent_capabilities": f"{AGENT}, 'skill-' || n, '{ORG}', null, 0",
    "agent.conversations": f"{sql_id('conv')}, '{ORG}', {AGENT}, {AT}, {AT}, {RARE}, false, '{{}}',"
    f" {fields(summary=unlike("'all about the zebra'", "'nothing'"))}",
    "agent.runs": f"{sql_id('run')}, '{ORG}', {AGENT}, {CONVERSATION}, {AT},"
    f" {unlike("'failed'", "'completed'")}, {unlike("'error'", "'end_turn'")}, {RARE}, false,"
    f" 'hash-' || n, null, null, "
    + fields(
        completed_at=f"({AT})::text",
        total_duration_ns="n * 1000",
        metadata=unlike(
            fields(schedule_id=sql_id("schedule"), batch_id=sql_id("batch")), "'{}'::jsonb"
        ),
    ),
    "agent.steps": f"{sql_id('step')}, '{ORG}', {AGENT}, {CONVERSATION}, {sql_id('run')}, 4, {AT},"
    f" 'success', {unlike("'openai/rare'", "'openai/gpt-4o-mini'")}, {unlike("'negative'")},"
    f" {unlike("array['rare']")}, null",
    "agent.batches": f"{sql_id('batch')}, '{ORG}', {AGENT}, {AT}, {AT},"
    f" {unlike("'failed'", "'completed'")}, 5, false, '{{}}', null, 0, null",
    "memory.blocks": f"{sql_id('block')}, '{ORG}', {AT}, 1, {unlike("'zebras'", "'human'")}, "
    + fields(
        id=sql_id("block"),
        label=unlike("'zebras'", "'human'"),
        limit="5000",
        read_only="false",
        value=unlike("'The zebra has stripes'", "'Name: Ada, ' || md5(n::text)"),
        description=unlike("'on the zebra'", "'about the human'"),
        template_name=unlike("'zebra'"),
        is_template=RARE,
        project_id=unlike(sql_id("project")),
        tags=unlike('\'["all", "rare"]\'::jsonb', "'[]'::jsonb"),
    ),
    "memory.archives": f"{sql_id('archive')}, '{ORG}', {AT}, 1, 'Archive ' || n, '{{\"a\": 1}}',"
    " null",
    "memory.archive_agents": f"'archive-' || n || ' agent-' || n, {sql_id('archive')}, {AGENT},"
    f" '{ORG}', {AT}",
    "memory.folders": f"{sql_id('source')}, '{ORG}', {AT}, {AT}, 'folder-' || n, '{{\"a\": 1}}',"
    " null",
    "memory.files": f"{sql_id('file')}, '{ORG}', {sql_id('source')}, {AT}, {AT}, 'a.txt', 'a.txt',"
    f" 'completed', null, 'text/plain', 1, 'text-' || n, 1, 1, 1, 1, {AT}",
    "memory.agent_folders": f"'folder-' || n, 'folders-' || n, '{ORG}', {AGENT},"
    f" {sql_id('source')}, {AT}",
    "tools.tools": f"{sql_id('tool')}, '{ORG}', {AT}, {AT}, {unlike("'zebra'", "'roll_' || n")},"
    f" {unlike("'external_mcp'", "'custom'")}, {unlike("array['rare']", "'{}'::text[]")},"
    " '{\"a\": 1}'",
    "tools.tool_runs": f"{sql_id('tool_run')}, '{ORG}', {AT}, {sql_id('tool')},"
    f" {unlike("'zebra'", "'roll_dice'")}, {AGENT}, {sql_id('run')}, 'call-' || n,"
    f" {unlike("'error'", "'success'")}, null",
    "groups.groups": f"{sql_id('group')}, '{ORG}', {AT}, {AT}, 'Group ' || n,"
    f" {unlike("'dynamic'", "'supervisor'")}, {AGENT}, array[{AGENT}], null, "
    f"{fields(project_id=unlike(sql_id('project')))}, '{{}}', '{{}}', 0",
    "groups.group_members": f"'group-' || n, {sql_id('group')}, {AGENT}, '{ORG}', {AT}",
    "groups.routed_messages": f"{sql_id('routed_message')}, '{ORG}', {AT},"
    f" {unlike("'all'", "'one'")}, '{{}}', {unlike("'failed'", "'completed'")}, {AT}, null, {AT},"
    " '[]', null",
    "groups.subscribers": f"'subscriber-' || n, 'topic-' || n, '{ORG}', 'news-' || n, {AGENT},"
    f" {AT}",
    "scheduler.schedules": f"{sql_id('schedule')}, '{ORG}', {AGENT}, {AT}, {AT},"
    f" {unlike("'paused'", "'active'")}, "
    f"{fields(name=unlike("'zebra'", "'daily'"), last_error=unlike("'it failed'"))}",
    "scheduler.firings": f"{sql_id('firing')}, '{ORG}', {sql_id('schedule')}, {AGENT}, {AT}, {AT},"
    f" {sql_id('run')}, 'completed', 1, null, null, '{{}}'",
    "api.identities": f"{sql_id('identity')}, '{ORG}', {AT}, 'key-' || n,"
    f" {unlike("'the zebra'", "'Person ' || n")},"
    f" {unlike("'org'", "'user'")}, {unlike(sql_id('project'))}, '[]'",
    "api.projects": f"{sql_id('project')}, '{ORG}', {AT}, {AT},"
    f" {unlike("'the zebra'", "'project-' || n")}, null,"
    f" array['all'] || {unlike("array['rare']", "'{}'::text[]")},"
    f" {unlike("'user-rare'", "'user-1'")}, 'ada', 'ada'",
    "api.attachments": f"'identity-' || n, '{ORG}', {sql_id('identity')}, {AGENT}, {AT}",
    "api.templates": f"{sql_id('template')}, '{ORG}', {AT}, {AT}, {sql_id('project')},"
    " 'template-' || n, '', 1, 0, '{}'",
    "api.template_versions": f"{sql_id('template_version')}, {sql_id('template')}, '{ORG}', 1, '',"
    f" {AT}, '{{}}'",
    "api.imports": f"{sql_id('import')}, '{ORG}', {AT}, {AT}, {AT},"
    f" {unlike("'failed'", "'completed'")}, '{{}}', 1, 1, 1, 1, '{{}}', '[]', '[]', false, null",
    "api.fleets": f"{sql_id('fleet')}, '{ORG}', 'key-' || n, 'shop', '/srv/shop', {AT}, null, ''",
    "api.fleet_members": f"'member-' || n, '{ORG}', {sql_id('fleet')}, 'agent', 'a.toml', {AGENT},"
    f" 'ada', '{{}}', {AT}",
    "api.fleet_applies": f"{sql_id('apply')}, '{ORG}', {sql_id('fleet')}, {sql_id('plan')}, 'ada',"
    f" null, 1, 'completed', '{{}}', '', {AT}, {AT}",
    "api.fleet_units": f"{sql_id('apply')} || '.0', '{ORG}', {sql_id('fleet')}, {sql_id('apply')},"
    " 0, '{}', '{}'",
    "api.fleet_plans": f"{sql_id('plan')}, '{ORG}', {sql_id('fleet')},"
    f" json_build_object('fleet_id', {sql_id('fleet')}), 'sealed:x', 1, {AT}, now()",
    "agent.dead_letters": f"{sql_id('letter')}, '{ORG}', {AT}, 'agent', "
    f"{unlike("'event'", "'command'")}, {unlike("'agent.rare'", "'agent.create'")}, 'subject',"
    f" 'message-' || n, '{{}}', null, '{{}}', 1, {AT}, {AT}, 'ValueError', '', '',"
    f" {unlike("'parked'", "'replayed'")}, null",
}
# Others, of which each agent has several: of three numbers `m`.
SEVERAL = {
    "agent.agent_tags": f"{AGENT}, t.tag, '{ORG}' from generate_series(1, {{count}}) n cross join"
    f" lateral (values ('all'), ({unlike("'rare'", "'tag-' || n % 50")})) t(tag)",
    "agent.messages": f"{sql_id('message', 'n * 4 + m')}, '{ORG}', {AGENT}, {CONVERSATION}, m,"
    f" {sql_id('run')}, {sql_id('step')}, case m when 1 then 'system' when 2 then 'user' else"
    f" 'assistant' end, {AT}, true, true, {unlike("'the zebra'", "'hello world'")}, '[]', null,"
    f" null, null, {AT} from generate_series(1, {{count}}) n, generate_series(1, 3) m",
    "memory.passages": f"{sql_id('passage', 'n * 4 + m')}, '{ORG}', {sql_id('archive')},"
    f" {sql_id('passage', 'n * 4 + m')}, null, {AT}, 1,"
    f" {unlike("'Likes the zebra'", "'Likes tea'")}, '{{}}', '{{\"a\": 1}}', null, 'words', '[1,0]'"
    " from generate_series(1, {count}) n, generate_series(1, 3) m",
}
EVENTS = (
    event("agent", 1, AGENT, "agent.created"),
    event(
        "agent",
        2,
        sql_id("conv"),
        "conversation.created",
        f"json_build_object('config', json_build_object('agent_id', {AGENT}))",
    ),
    event("agent", 3, CONVERSATION, "run.accepted", about=sql_id("run")),
    event("agent", 4, CONVERSATION, "model.replied", "'{\"usage\": {}}'"),
    event("memory", 1, sql_id("block"), "block.created"),
    event(
        "memory", 2, sql_id("archive"), "archive.created", f"json_build_object('agent_id', {AGENT})"
    ),
)


IDS = {
    name: id_of(kind)
    for kind, names in {
        "agent": ("agent_id", "agent_ids"),
        "apply": ("apply_id",),
        "archive": ("archive_id",),
        "batch": ("batch_id",),
        "block": ("block_id",),
        "conv": ("conversation_id",),
        "letter": ("letter_id",),
        "deployment": ("deployment_id",),
        "file": ("file_id",),
        "fleet": ("fleet_id",),
        "group": ("group_id",),
        "group_run": ("group_run_id",),
        "identity": ("identity_id",),
        "import": ("import_id",),
        "job": ("job_id",),
        "mcp_server": ("mcp_server_id",),
        "message": ("message_id",),
        "plan": ("plan_id",),
        "project": ("project_id",),
        "replay": ("replay_id",),
        "routed_message": ("routed_message_id",),
        "run": ("run_id",),
        "sandbox": ("sandbox_config_id",),
        "schedule": ("scheduled_message_id", "schedule_id"),
        "source": ("folder_id", "source_id"),
        "step": ("step_id",),
        "tool": ("tool_id", "tool_ids"),
        "tool_run": ("tool_run_id",),
    }.items()
    for name in names
} | {
    "capability": f"skill-{UNLIKE}",
    "folder_name": f"folder-{UNLIKE}",
    "label": "zebras",
    "name": f"template-{UNLIKE}",
    "template_version": f"template-{UNLIKE}:1",
    "topic": f"news-{UNLIKE}",
    "version": "1",
}
# What only the one has, by the parameter that asks for it; by route where they differ.
ASKED = (
    {name: IDS[name] for name in IDS if name.endswith(("_id", "_ids", "capability"))}
    | dict.fromkeys(
        ("query_text", "search", "summary_search", "label_search", "description_search"), "zebra"
    )
    | {
        "/agents name": f"Agent {UNLIKE}",
        "/v1/agent-groups name": f"Group {UNLIKE}",
        "/v1/agent-groups/count name": f"Group {UNLIKE}",
        "/v1/agents name": f"Agent {UNLIKE}",
        "/v1/agents/count name": f"Agent {UNLIKE}",
        "/v1/archives name": f"Archive {UNLIKE}",
        "/v1/folders name": f"folder-{UNLIKE}",
        "base_template_id": "base-rare",
        "connected_to_agents_count_gt": "1",
        "created_by_id": "user-rare",
        "end_date": "2026-01-01T00:00:09Z",
        "identity_type": "org",
        "include_return_message_types": "user_message",
        "topic": "block.changed",
        "identifier_key": f"key-{UNLIKE}",
        "identifier_keys": f"key-{UNLIKE}",
        "label": "zebras",
        "last_stop_reason": "error",
        "model": "openai/rare",
        "name": "zebra",
        "names": "zebra",
        "owner_id": "user-rare",
        "since": "2026-01-01T00:00:00Z",
        "start_date": "2026-01-01T00:00:07Z",
        "statuses": "failed",
        "stop_reason": "error",
        "template_id": "template-rare",
        "tool_name": "zebra",
        "until": "2026-01-01T00:00:09Z",
        "value_search": "zebra",
        "version": "1",
    }
)


def make_agents(connection: psycopg.Connection[object], count: int) -> None:
    """Insert so many agents with all that they have, into empty tables, and count them all."""
    for table, values in ROWS.items():
        made = f"select {values} from generate_series(1, {count}) n"
        connection.execute(f"insert into {table} {made}".encode())
    for table, values in SEVERAL.items():
        made = values.replace("{count}", str(count))
        connection.execute(f"insert into {table} select {made}".encode())
    for statement in EVENTS:
        connection.execute(f"{statement} from generate_series(1, {count}) n".encode())
    connection.execute(b"vacuum (analyze)")
