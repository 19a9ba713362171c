-- Under which numbers clients are told of a message, so that streams can be told again.

alter table {schema}.messages add number bigint, add pieces jsonb;
comment on column {schema}.messages.number is
    'The number of the first thing that clients are told of it; null for what is not an answer.';
comment on column {schema}.messages.pieces is
    'Kinds and lengths of the pieces that it was streamed in; null if it is told whole.';

create or replace view {schema}.message_view as
    select id, org, agent_id, conversation_id, position, run_id, step_id, role, created_at,
           sent, in_context, text, docs, number, pieces
    from {schema}.messages;

alter table {schema}.runs add stream_tokens boolean not null default false;
create or replace view {schema}.run_view as
    select id, org, agent_id, conversation_id, created_at, status, stop_reason, background,
           request_hash, error, usage, doc, stream_tokens
    from {schema}.runs;
