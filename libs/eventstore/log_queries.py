"""The queries that number the events of a service in one order, and that read them in it."""

# The columns are qualified on purpose: an output alias `xid::text` would sort as text and lose
# events when the number of digits grows. The horizon is what makes the order safe: below it no
# transaction is still open, so nothing can appear later in what was already numbered.
NUMBER_LOG = """
with relay as (
    select r.xid, r.event_position, r.position from {schema}.relay r for update
), fresh as (
    select e.xid, e.position from {schema}.events e
    where (e.xid, e.position) > (
        (select r.xid from relay r), (select r.event_position from relay r))
      and e.xid < pg_snapshot_xmin(pg_current_snapshot())
    order by e.xid, e.position limit %(limit)s
), numbered as (
    select f.xid, f.position as event_position,
           (select r.position from relay r) + row_number() over (order by f.xid, f.position)
               as position
    from fresh f
), logged as (
    insert into {schema}.log (position, event_position)
    select n.position, n.event_position from numbered n
), moved as (
    update {schema}.relay r
    set xid = n.xid, event_position = n.event_position, position = n.position
    from (select * from numbered order by position desc limit 1) n
)
select count(*) from numbered"""

READ_LOG = """
select aggregate_id, version, topic, schema_version, org, about, payload, metadata, occurred_at,
       position, commit_order
from (
    select *, sum(octet_length(payload)) over (
        order by position rows between unbounded preceding and 1 preceding) as bytes_before
    from (
        select aggregate_id, version, topic, schema_version, org, about, payload::text, metadata,
               occurred_at, position, commit_order
        from {schema}.event_log
        where position > %(after)s and (%(topics)s::text[] is null or topic = any(%(topics)s))
        order by position limit %(limit)s
    ) found
) counted
where coalesce(bytes_before, 0) < %(bytes)s order by position"""

LOG_HEAD = "select position from {schema}.log_head_view"
