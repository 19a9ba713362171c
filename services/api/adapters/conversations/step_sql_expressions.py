"""Steps as clients read them: SQL expressions on a row `v` of `agent.step_view`, or of
`agent.run_view` where the name says run. The event of a step tells what came of it."""

from __future__ import annotations

ANSWERED = "v.topic = 'model.replied'"
USAGE = f"(case when {ANSWERED} then v.payload->'usage' end)"
FAILED = "v.topic = 'run.failed'"


def tokens(name: str) -> str:
    """A count of the step's tokens, null where its model has not answered."""
    return f"({USAGE}->>'{name}')::bigint"


# As in `claude-sonnet-4-5-20250929` and `gpt-4o-2024-08-06`.
DATE_AT_ITS_END = r"'-(\d{8}|\d{4}-\d{2}-\d{2})$'"


def cost(row: str) -> str:
    """The cost of an answered step in US dollars, and the version of its prices, as a query of
    `dollars` and `version` on a row of the view. It has no row for a model without a price, and for
    a provider that says nothing of tokens: what is not known is not 0."""
    counted = {
        name: f"({row}.payload->'usage'->>'{name}')::numeric"
        for name in (
            "prompt_tokens",
            "completion_tokens",
            "cached_input_tokens",
            "cache_write_tokens",
        )
    }
    prompt, said, cached, written = counted.values()
    return (
        f"(select trim_scale(round(((greatest({prompt} - {cached} - {written}, 0)) * p.input"
        f" + {cached} * p.cached_input + {written} * p.cache_write + {said} * p.output)"
        " / 1000000, 12)) as dollars, p.version from agent.price_view p"
        f" where {row}.topic = 'model.replied' and {prompt} + {said} > 0"
        f" and p.since <= {row}.created_at"
        f" and p.model in ({row}.model, regexp_replace({row}.model, {DATE_AT_ITS_END}, ''))"
        f" order by p.model = {row}.model desc, p.since desc limit 1)"
    )


MODEL_NAME = "substr(v.model, position('/' in v.model) + 1)"
PROVIDER = "case when position('/' in v.model) > 1 then split_part(v.model, '/', 1) end"
AGENT = "from agent.agent_view a where a.id = v.agent_id and a.org = v.org"
PROJECT = f"(select a.fields->>'project_id' {AGENT})"
# A run ends in its last step, for a reason that the others do not have.
STOP_REASON = (
    "(case v.status when 'cancelled' then 'cancelled' else coalesce("
    " case when v.topic = 'run.failed' then v.payload->>'stop_reason' end,"
    " (select r.stop_reason from agent.run_view r where r.id = v.run_id and r.org = v.org"
    " and not exists (select from agent.step_view later where later.run_id = v.run_id"
    " and later.org = v.org and later.position > v.position))) end)"
)
PROMPT_DETAILS = (
    f"case when {tokens('cached_input_tokens')} + {tokens('cache_write_tokens')} > 0 then"
    f" json_build_object('cached_tokens', {tokens('cached_input_tokens')},"
    f" 'cache_read_tokens', {tokens('cached_input_tokens')},"
    f" 'cache_creation_tokens', {tokens('cache_write_tokens')}) end"
)
COMPLETION_DETAILS = (
    f"case when {tokens('reasoning_tokens')} > 0 then"
    f" json_build_object('reasoning_tokens', {tokens('reasoning_tokens')}) end"
)
ERROR = (
    f"case when {FAILED} then json_build_object('message', v.payload->'message',"
    " 'detail', v.payload->'detail') end"
)
STEP = f"""json_build_object(
 'id', v.id, 'origin', null, 'provider_id', null, 'provider_name', {PROVIDER},
 'provider_category', case when v.model is not null then 'base' end,
 'run_id', v.run_id, 'agent_id', v.agent_id, 'model', {MODEL_NAME}, 'model_handle', v.model,
 'model_endpoint', null, 'context_window_limit', null,
 'completion_tokens', {tokens("completion_tokens")}, 'prompt_tokens', {tokens("prompt_tokens")},
 'total_tokens', {tokens("prompt_tokens")} + {tokens("completion_tokens")},
 'cached_input_tokens', {tokens("cached_input_tokens")},
 'cache_write_tokens', {tokens("cache_write_tokens")},
 'reasoning_tokens', {tokens("reasoning_tokens")},
 'completion_tokens_details', {COMPLETION_DETAILS}, 'prompt_tokens_details', {PROMPT_DETAILS},
 'stop_reason', {STOP_REASON}, 'tags', coalesce(v.tags, '{{}}'), 'tid', v.tid,
 'trace_id', nullif(v.trace_id, ''), 'request_id', null, 'messages', '[]'::json,
 'feedback', v.feedback, 'project_id', {PROJECT},
 'error_type', case when {FAILED} then v.payload->>'error_type' end, 'error_data', {ERROR},
 'status', v.status, 'cost_usd', (select dollars from {cost("v")} c),
 'price_version', (select version from {cost("v")} c))"""

MODEL_NS = "(v.payload->>'model_ns')::bigint"
# From the start of the first call of the step to the end of the last.
TOOL_NS = (
    "(select (extract(epoch from max(t.occurred_at) - min(t.occurred_at)) * 1000000000)::bigint"
    " from agent.tool_call_event_view t"
    " where t.run_id = v.run_id and t.org = v.org and t.step_id = v.id)"
)
ANSWERED_NS = "(extract(epoch from v.created_at) * 1000000000)::bigint"
STEP_METRICS = f"""json_build_object(
 'id', v.id, 'organization_id', v.org, 'provider_id', null, 'run_id', v.run_id,
 'agent_id', v.agent_id, 'step_start_ns', {ANSWERED_NS} - coalesce({MODEL_NS}, 0),
 'llm_request_start_ns', {ANSWERED_NS} - {MODEL_NS}, 'llm_request_ns', {MODEL_NS},
 'tool_execution_ns', {TOOL_NS}, 'step_ns', coalesce({MODEL_NS}, 0) + coalesce({TOOL_NS}, 0),
 'template_id', null, 'base_template_id', null, 'project_id', {PROJECT})"""

SAID = (
    "(select coalesce(json_agg(v1_message order by m.position), '[]') from agent.message_view m,"
    " json_array_elements(m.v1_messages) v1_message where m.run_id = v.run_id and m.org = v.org"
    " and m.step_id = v.id and m.role = 'assistant' and not m.sent)"
)
STEP_TRACE = f"""json_build_object(
 'id', 'provider_trace-' || substr(v.id, 6),
 'request_json', json_build_object('model', v.model, 'tools', v.payload->'offered'),
 'response_json', json_build_object('messages', {SAID},
  'finish_reason', v.payload->'finish_reason', 'tool_calls', v.payload->'tool_calls',
  'usage', {USAGE}, 'logprobs', v.payload->'logprobs', 'error', {ERROR}),
 'step_id', v.id, 'agent_id', v.agent_id,
 'agent_tags', (select to_json(a.tags) {AGENT}), 'call_type', 'agent_step', 'run_id', v.run_id,
 'source', 'heeler', 'org_id', v.org, 'user_id', null, 'compaction_settings', null,
 'llm_config', null, 'billing_context', null, 'latency_ms', {MODEL_NS} / 1000000,
 'created_at', v.created_at)"""

RUN_STEPS = "from agent.step_view s where s.run_id = v.id and s.org = v.org"
TOOLS_USED = (
    "(select json_agg(distinct tool->>'id') from agent.step_view s,"
    " json_array_elements(s.payload->'tool_calls') call, agent.agent_view a,"
    " jsonb_array_elements(a.tools) tool where s.run_id = v.id and s.org = v.org"
    " and s.topic = 'model.replied' and a.id = v.agent_id and a.org = v.org"
    " and tool->>'name' = call->>'name')"
)
# Null as soon as the cost of one step is not known: a part of a sum is no sum.
RUN_COST = (
    "(select case when count(*) = count(c.dollars) then sum(c.dollars) end from agent.step_view s"
    f" left join lateral {cost('s')} c on true"
    " where s.run_id = v.id and s.org = v.org and s.topic = 'model.replied')"
)
RUN_USAGE = f"json_build_object('tokens', v.usage, 'cost_usd', {RUN_COST})"
RUN_METRICS = f"""json_build_object(
 'id', v.id, 'organization_id', v.org, 'agent_id', v.agent_id,
 'project_id', (select a.fields->>'project_id' {AGENT}),
 'run_start_ns', (extract(epoch from v.created_at) * 1000000000)::bigint,
 'run_ns', v.fields->'total_duration_ns', 'num_steps', (select count(*) {RUN_STEPS}),
 'tools_used', {TOOLS_USED}, 'template_id', null, 'base_template_id', null)"""

# What a trace of a run is made of: the run, its steps, and when its tools began and ended.
TRACED_STEP = (
    "json_build_object('id', s.id, 'at', s.created_at, 'model', s.model, 'status', s.status,"
    " 'model_ns', s.payload->'model_ns', 'trace_id', s.trace_id)"
)
TRACED_CALL = (
    "json_build_object('step_id', t.step_id, 'id', t.tool_call_id, 'tool', t.tool,"
    " 'topic', t.topic, 'at', t.occurred_at, 'status', t.status)"
)
RUN_TRACE = f"""json_build_object('run', v.fields, 'error', v.error,
 'steps', (select coalesce(json_agg({TRACED_STEP} order by s.position), '[]') {RUN_STEPS}),
 'calls', (select coalesce(json_agg({TRACED_CALL} order by t.position), '[]')
  from agent.tool_call_event_view t where t.run_id = v.id and t.org = v.org))"""
