-- What a client sent in a message is served as it came: jsonb would print 1e308 as 309 digits.

drop view {schema}.message_view;
alter table {schema}.messages alter column docs type json using docs::json;
create view {schema}.message_view as
    select id, org, agent_id, conversation_id, position, run_id, step_id, role, created_at,
           sent, in_context, text, docs, number, pieces
    from {schema}.messages;
grant select on {schema}.message_view to heeler_reader;
