-- What models are shown of a conversation is found without a look at the rest of it, however long
-- that is; and a summary is served in two forms.

alter table {schema}.messages add column plain_docs json;
comment on column {schema}.messages.plain_docs is
    'Of a summary that is told apart: the V1 messages for clients that do not want that.';
create index messages_in_context on {schema}.messages (conversation_id, position)
    where in_context;
create or replace view {schema}.message_view as
    select id, org, agent_id, conversation_id, position, run_id, step_id, role, created_at,
           sent, in_context, text, docs, number, pieces, plain_docs
    from {schema}.messages;
