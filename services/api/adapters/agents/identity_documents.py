"""Identities in SQL: how clients read one, and the agents and blocks that have one."""

from __future__ import annotations

NOTHING = "'[]'::json"


def identity_document(row: str, agent_ids: str = NOTHING, block_ids: str = NOTHING) -> str:
    """The V1 identity of a row of the view, with these expressions for what it is attached to."""
    return (
        f"json_build_object('id', {row}.id, 'identifier_key', {row}.identifier_key, 'name',"
        f" {row}.name, 'identity_type', {row}.identity_type, 'project_id', {row}.project_id,"
        f" 'agent_ids', {agent_ids}, 'block_ids', {block_ids}, 'organization_id', {row}.org,"
        f" 'properties', {row}.properties)"
    )


# What an identity `v` is attached to, as JSON arrays of ids: only what exists still.
AGENT_IDS = (
    "(select coalesce(json_agg(a.target_id order by a.created_at, a.target_id), '[]')"
    " from api.identity_attachment_view a join agent.agent_view g on g.id = a.target_id"
    " and g.org = a.org where a.identity_id = v.id and a.org = v.org)"
)
BLOCK_IDS = (
    "(select coalesce(json_agg(a.target_id order by a.created_at, a.target_id), '[]')"
    " from api.identity_attachment_view a join memory.block_view b on b.id = a.target_id"
    " and b.org = a.org where a.identity_id = v.id and a.org = v.org)"
)
# The identities of an agent `v`. `offset 0` keeps a subquery to itself: attachments are found by
# the agent's id, and identities by their own, not by their organisation.
IDENTITIES_OF_AGENT = (
    "(select jsonb_build_object('identity_ids', coalesce(jsonb_agg(i.id order by a.created_at,"
    f" i.id), '[]'), 'identities', coalesce(jsonb_agg({identity_document('i')} order by"
    " a.created_at, i.id), '[]')) from (select identity_id, org, created_at"
    " from api.identity_attachment_view where target_id = v.id offset 0) a cross join lateral"
    " (select * from api.identity_view where id = a.identity_id limit 1) i"
    " where a.org = v.org and i.org = v.org)"
)
# The conditions on an agent or a block `v` that it has the identity of a parameter, or one of the
# keys of a parameter.
HAS_IDENTITY = (
    "v.id in (select target_id from api.identity_attachment_view"
    " where identity_id = {} and org = %(org)s)"
)
HAS_IDENTIFIER_KEY = (
    "v.id in (select target_id from api.identity_attachment_view"
    " where identifier_key = any({}) and org = %(org)s)"
)
