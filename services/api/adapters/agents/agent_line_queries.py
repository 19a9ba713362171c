"""The statements by which an agent is read as lines, from the views of all services."""

from __future__ import annotations

AGENT = """
select payload::text from agent.recorded_event_view
where aggregate_id = %(agent)s and org = %(org)s
  and topic in ('agent.created', 'agent.updated')
  and (%(cut)s::bigint is null or commit_order <= %(cut)s)
order by version desc limit 1"""
BLOCKS_NOW = """
select payload->'block_ids' from agent.recorded_event_view
where aggregate_id = %(agent)s and org = %(org)s
  and topic in ('agent.created', 'agent.updated', 'agent.block_attached', 'agent.block_detached')
  and (%(cut)s::bigint is null or commit_order <= %(cut)s)
order by version desc limit 1"""
SECRETS = """
select payload->'secrets' from agent.recorded_event_view
where aggregate_id = %(agent)s and org = %(org)s and topic = 'agent.secrets_replaced'
  and (%(cut)s::bigint is null or commit_order <= %(cut)s)
order by version desc limit 1"""
# The second condition is that of the index.
CONVERSATIONS = """
select c.aggregate_id from agent.recorded_event_view c
where c.topic = 'conversation.created' and c.payload->'config'->>'agent_id' = %(agent)s
  and c.payload->'config'->>'agent_id' <> '' and c.org = %(org)s
  and (%(cut)s::bigint is null or c.commit_order <= %(cut)s)
  and c.aggregate_id collate "C" > %(after)s
  and not exists (
    select from agent.recorded_event_view d
    where d.aggregate_id = c.aggregate_id and d.topic = 'conversation.deleted'
      and d.version > c.version and (%(cut)s::bigint is null or d.commit_order <= %(cut)s))
order by c.aggregate_id collate "C" limit %(limit)s"""
OWN_BLOCKS = """
select distinct b.value
from agent.recorded_event_view c
cross join lateral json_each_text(c.payload->'config'->'isolated_blocks') b
where c.aggregate_id = any(%(ids)s) and c.org = %(org)s and c.topic = 'conversation.created'"""
SHARED_BLOCKS = """
select distinct b.id from unnest(%(ids)s::text[]) as b(id) where exists (
    select from agent.agent_view a where a.block_ids @> array[b.id] and a.org = %(org)s
    and a.id <> %(agent)s)"""
TOOLS = """
select t.id, t.document from tools.tool_view t
where t.id = any(%(ids)s) and t.org = %(org)s and t.tool_type = 'custom' order by t.id"""
ARCHIVES = """
select v.id, v.name, v.document, v.created_at, exists (
    select from memory.archive_agent_view o
    where o.archive_id = v.id and o.org = v.org and o.agent_id <> %(agent)s)
from memory.archive_agent_view a join memory.archive_view v on v.id = a.archive_id and v.org = a.org
where a.agent_id = %(agent)s and a.org = %(org)s order by a.attached_at, v.id"""
PASSAGES = """
select id from memory.archive_passage_view where archive_id = %(archive)s and org = %(org)s
  and id collate "C" > %(after)s order by id collate "C" limit %(limit)s"""
PAST_PASSAGES = """
select distinct aggregate_id collate "C" from memory.passage_event_view
where archive_id = %(archive)s and org = %(org)s and topic = 'passage.created'
  and commit_order <= %(cut)s and aggregate_id collate "C" > %(after)s
order by aggregate_id collate "C" limit %(limit)s"""
FOLDERS = """
select f.id, f.document from memory.agent_folder_view a
join memory.folder_view f on f.id = a.folder_id and f.org = a.org
where a.agent_id = %(agent)s and a.org = %(org)s order by a.created_at, f.id"""
# Those that the agent had at the cut, and that are still there.
PAST_FOLDERS = """
select f.id, f.document from (
    select distinct on (e.payload->>'folder_id') e.payload->>'folder_id' as id, e.topic, e.version
    from memory.recorded_event_view e
    where e.aggregate_id = %(folders)s and e.org = %(org)s and e.commit_order <= %(cut)s
      and e.topic in ('agent_folders.attached', 'agent_folders.detached')
    order by e.payload->>'folder_id', e.version desc) a
join memory.folder_view f on f.id = a.id and f.org = %(org)s
where a.topic = 'agent_folders.attached' order by a.version, f.id"""
# What the agent was attached to at the cut, or is now.
OWNERS = """
with owners as (
    select owner_id, created_at from (
        select distinct on (n.aggregate_id) n.payload->>'owner_id' as owner_id, n.topic,
            n.occurred_at as created_at
        from api.recorded_event_view m
        join api.recorded_event_view n on n.aggregate_id = m.aggregate_id
        where m.topic = 'attachment.made' and m.about = %(agent)s and m.org = %(org)s
          and (%(cut)s::bigint is null or n.commit_order <= %(cut)s)
        order by n.aggregate_id, n.version desc) a
    where topic = 'attachment.made')"""
IDENTITIES = f"""{OWNERS}
select i.id, json_build_object('identifier_key', i.identifier_key, 'name', i.name,
    'identity_type', i.identity_type, 'project_id', i.project_id, 'properties', i.properties)
from owners a join api.identity_view i on i.id = a.owner_id and i.org = %(org)s
order by a.created_at, i.id"""
PROJECTS = f"""{OWNERS}
select p.id, json_build_object('name', p.name, 'description', p.description, 'tags', p.tags,
    'owner_id', p.owner_id)
from owners a join api.project_view p on p.id = a.owner_id and p.org = %(org)s
order by a.created_at, p.id"""
GROUPS = """
select g.id, g.agent_ids, g.fields, g.metadata, g.shared_state from groups.group_view g
where g.manager_agent_id = %(agent)s and g.org = %(org)s
  and not exists (
    select from unnest(g.agent_ids) as m(id) where not exists (
        select from agent.agent_view a where a.id = m.id and a.org = g.org))
order by g.created_at, g.id"""
SCHEDULES = """
select id, fields from scheduler.schedule_view
where agent_id = %(agent)s and org = %(org)s and status <> 'completed' order by id"""
