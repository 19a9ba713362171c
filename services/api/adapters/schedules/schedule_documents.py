"""Documents of schedules and of firings, as SQL expressions on a row `v`.

A schedule is shown in V1's form and in the one that has more, both at once: V1's clients ignore
what they do not know."""

from __future__ import annotations

# As V1 has it: a Unix time in milliseconds, or in seconds where the client gave it so.
UNIX_TIME = """
trim_scale(round(extract(epoch from (v.fields->>'scheduled_at')::timestamptz)
    * case when v.fields->'client_fields'->>'unix_time' = 'seconds' then 1 else 1000 end, 6))"""
WHEN = f"""
case when v.fields->>'schedule_type' = 'one_time'
then jsonb_build_object('type', 'one-time', 'scheduled_at', {UNIX_TIME})
else jsonb_build_object('type', 'recurring', 'cron_expression', v.fields->'cron_expression') end"""
# V1 knows no other action than a message, and a group is sent one, too.
MESSAGE = """
jsonb_build_object('messages', coalesce(v.fields->'action'->'messages', '[]'))
|| case when v.fields->'action'->>'type' = 'message'
   then (v.fields->'action') - 'type' else '{}' end"""

FIRING = """
jsonb_build_object(
    'id', v.id, 'schedule_id', v.schedule_id, 'agent_id', v.agent_id, 'created_at', v.created_at,
    'slot', v.slot, 'by_hand', v.fields->'by_hand', 'run_id', v.run_id, 'status', v.status,
    'attempts', v.attempts, 'retry_at', v.retry_at, 'error', v.error,
    'ended_at', v.fields->'ended_at')"""
LAST_FIRING = f"""
(select {FIRING} from scheduler.firing_view v
 where v.schedule_id = schedule.id and v.org = schedule.org
 order by v.created_at desc, v.id collate "C" desc limit 1)"""
ALL_BUT_LAST_FIRING = f"""
jsonb_build_object(
    'id', v.id, 'agent_id', v.agent_id, 'created_at', v.created_at, 'message', {MESSAGE},
    'schedule', {WHEN}, 'next_scheduled_at', v.next_at, 'next_scheduled_time', v.next_at,
    'name', v.fields->'name', 'description', v.fields->'client_fields'->'description',
    'action', v.fields->'action',
    'schedule_type', v.fields->'schedule_type', 'scheduled_time', v.fields->'scheduled_at',
    'recurrence_rule', v.fields->'cron_expression', 'timezone', v.fields->'timezone',
    'conversation_id', v.fields->'conversation_id')
|| jsonb_build_object(
    'missed', v.fields->'missed', 'missed_slots_max', v.fields->'missed_slots_max',
    'if_active', v.fields->'if_active', 'retries_max', v.fields->'retries_max',
    'status', v.status, 'next_run', v.next_at, 'last_slot', v.fields->'last_slot',
    'last_error', v.fields->'last_error', 'last_skipped', v.fields->'last_skipped')"""
SCHEDULE = f"""
{ALL_BUT_LAST_FIRING} || jsonb_build_object('last_firing', (
    select {LAST_FIRING} from (select v.id, v.org) as schedule))"""
# As the scheduler service has it.
CONFIG = "v.fields"
