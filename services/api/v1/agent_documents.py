"""The V1 document of an agent as an SQL expression on a row `v` of the agents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from services.api.adapters.agents.identity_documents import IDENTITIES_OF_AGENT
from services.api.adapters.memory.agent_file_blocks import PLACE
from services.api.v1.secret_sealing import MARK

# What a V1 agent has besides its own fields: from its conversation, from its last run, and, where
# the client asks for them, its relationships.
# What models are shown, in that order: a summary is recorded later than what follows it, and is
# shown behind the first message, the system's.
FIRST_IN_CONTEXT = (
    "select min(f.position) from agent.message_view f"
    " where f.conversation_id = v.conversation_id and f.org = v.org and f.in_context"
)
MESSAGE_IDS = (
    "array_to_json(array(select m.id from agent.message_view m"
    " where m.conversation_id = v.conversation_id and m.org = v.org and m.in_context"
    f" order by case m.role when 'summary' then ({FIRST_IN_CONTEXT}) + 0.5 else m.position end"
    "))::text"
)
RUNS_OF_AGENT = "from agent.run_view r where r.agent_id = v.id and r.org = v.org"
LATEST = 'r.created_at desc, r.id collate "C" desc'
LAST_RUN = (
    "coalesce((select jsonb_build_object('last_stop_reason', r.stop_reason, 'last_run_completion',"
    " r.fields->'completed_at', 'last_run_duration_ms',"
    f" (r.fields->>'total_duration_ns')::bigint / 1000000) {RUNS_OF_AGENT}"
    f" and r.stop_reason is not null order by {LATEST} limit 1), '{{}}')"
)
# Blocks are text, as what else a client wrote: `jsonb` would change the form of its numbers.
# `offset 0` keeps a subquery to itself: blocks are found by their ids, not by their organisation,
# and they are read once, though they are shown twice.
BLOCKS = (
    "(select '[' || coalesce(string_agg(b.document, ', ' order by array_position(v.block_ids,"
    " b.id)), '') || ']' from (select id, org, document from memory.block_view"
    " where id = any(v.block_ids) offset 0) b where b.org = v.org)"
)
# Folders are few agents' own: what others' rows say of them is right already.
HAS_FOLDERS = (
    "coalesce((select a.org = v.org from memory.agent_folder_view a where a.agent_id = v.id"
    " limit 1), false)"
)
WITH_BLOCKS = (
    "left(((v.fields->'memory') - '{blocks,file_blocks}'::text[])::text, -1)"
    " || ', \"blocks\": ' || x.blocks || ', \"file_blocks\": '"
    f" || case when {HAS_FOLDERS} then {PLACE} else '[]' end || '}}'"
)
MEMORY = f"(select {WITH_BLOCKS} from (select {BLOCKS} as blocks offset 0) x)"
BLOCKS_AND_MEMORY = (
    f"(select '\"blocks\": ' || x.blocks || ', \"memory\": ' || {WITH_BLOCKS} || ', '"
    f" from (select {BLOCKS} as blocks offset 0) x)"
)
# The message is found by its id: a join might go through all messages of a table that is small.
PENDING_APPROVAL = (
    "(select d.value from agent.approval_view a, json_array_elements("
    "(select m.v1_messages from agent.message_view m"
    " where m.id = a.message_id and m.org = a.org)) d"
    " where a.conversation_id = v.conversation_id and a.org = v.org"
    " and d.value->>'message_type' = 'approval_request_message' limit 1)"
)
# What clients made is read where it is, by its ids, only for an agent that has any of it.
TOOLS = (
    "(case when v.custom_tool_ids = '{}' then v.tools else v.tools || coalesce((select"
    " jsonb_agg(t.document::jsonb order by array_position(v.custom_tool_ids, t.id))"
    " from (select id, org, document from tools.tool_view where id = any(v.custom_tool_ids)"
    " offset 0) t where t.org = v.org), '[]') end)"
)
# A document that has secrets in it has them twice: under the name of today and the deprecated one.
SECRET_FIELDS = ("secrets", "tool_exec_environment_variables")
SOURCES = (
    "(select coalesce(jsonb_agg(f.document::jsonb order by a.created_at, f.id), '[]')"
    " from (select folder_id, org, created_at from memory.agent_folder_view"
    " where agent_id = v.id offset 0) a cross join lateral (select id, org, document"
    " from memory.folder_view where id = a.folder_id limit 1) f"
    " where a.org = v.org and f.org = v.org)"
)
WITHOUT_SOURCES = (
    f"(case when {HAS_FOLDERS} then v.body_beside_secrets_and_sources"
    " else v.body_beside_secrets end)"
)
WITH_SOURCES = (
    f"(case when {HAS_FOLDERS} then jsonb_build_object('sources', {SOURCES}) else '{{}}' end)"
)
SECRETS = (
    "coalesce((select string_agg(left(jsonb_build_object('id', s.value->'id', 'agent_id', v.id,"
    " 'key', s.value->'key', 'value_enc', null, 'description', null, 'organization_id', v.org,"
    " 'created_at', null, 'updated_at', null, 'created_by_id', null, 'last_updated_by_id', null"
    f")::text, -1) || ', \"value\": ' || chr({ord(MARK)}) || (s.value->>'value')"
    f" || chr({ord(MARK)}) || '}}', ', ' order by s.number)"
    " from jsonb_array_elements(v.secrets) with ordinality s(value, number)), '')"
)
WITH_SECRETS = (
    "(case when v.secrets is null then '' else (select '\"secrets\": [' || x.them"
    " || '], \"tool_exec_environment_variables\": [' || x.them || '], '"
    f" from (select {SECRETS} as them offset 0) x) end)"
)
WITHOUT_SECRETS = (
    "(case when v.secrets is null then ''"
    ' else \'"secrets": [], "tool_exec_environment_variables": [], \' end)'
)
# For who runs a tool: sealed.
SEALED_SECRETS = (
    "coalesce((select jsonb_object_agg(s->>'key', s->>'value')"
    " from jsonb_array_elements(v.secrets) s), '{}')"
)
# The group that the agent manages, of several the one whose members review what its runs say. It
# is shown twice, under the name of today and the deprecated one.
MANAGED_GROUP = (
    "coalesce((select jsonb_build_object('multi_agent_group', x.own, 'managed_group', x.own)"
    " from (select g.document::jsonb as own from groups.group_view g"
    " where g.manager_agent_id = v.id and g.org = v.org"
    " order by g.manager_type not in ('sleeptime', 'voice_sleeptime'), g.created_at, g.id"
    " limit 1 offset 0) x), '{}')"
)
RELATIONSHIPS = {
    "agent.pending_approval": f"'pending_approval', {PENDING_APPROVAL}",
    "agent.tools": f"'tools', {TOOLS}",
    "agent.tags": "'tags', to_jsonb(v.tags)",
}
Relationship = Literal[
    "agent.blocks",
    "agent.identities",
    "agent.managed_group",
    "agent.pending_approval",
    "agent.secrets",
    "agent.sources",
    "agent.tags",
    "agent.tools",
]
ALL_RELATIONSHIPS = frozenset(get_args(Relationship))


def document_with(relationships: Iterable[str]) -> str:
    """The SQL expression of a V1 agent with the relationships that were asked for."""
    wanted = frozenset(relationships)
    named = [RELATIONSHIPS[name] for name in sorted(wanted & RELATIONSHIPS.keys())]
    shown = [f"jsonb_build_object({', '.join(named)})"] if named else []
    own, blocks, body = "v.fields", "''", "v.body_beside_secrets"
    if "agent.sources" in wanted:
        body = WITHOUT_SOURCES
        shown.append(WITH_SOURCES)
    if "agent.managed_group" in wanted:
        shown.append(MANAGED_GROUP)
    if "agent.identities" in wanted:
        shown.append(IDENTITIES_OF_AGENT)
    secrets = WITH_SECRETS if "agent.secrets" in wanted else WITHOUT_SECRETS
    if "agent.blocks" in wanted:
        own, blocks = "(v.fields - '{blocks,memory}'::text[])", BLOCKS_AND_MEMORY
    rest = " || ".join([own, LAST_RUN, *shown])
    # What is large is text, so that it is neither put together nor printed.
    return (
        f"'{{' || {body} || ', \"message_ids\": ' || {MESSAGE_IDS} || ', ' || {secrets} || {blocks}"
        f" || substr(({rest})::text, 2)"
    )
