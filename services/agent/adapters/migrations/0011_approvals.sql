-- Calls that wait for a client: one step of a conversation at a time.

create table {schema}.approvals (
    conversation_id text primary key,
    org             text not null,
    agent_id        text not null,
    message_id      text not null,
    requested_at    timestamptz not null
);
create index approvals_late on {schema}.approvals (requested_at);
comment on table {schema}.approvals is 'Calls that wait for an answer; swept every 2 s.';

create view {schema}.approval_view as
    select conversation_id, org, agent_id, message_id, requested_at from {schema}.approvals;
grant select on {schema}.approval_view to heeler_reader;
