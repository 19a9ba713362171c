-- Conversations that pause, until when: swept every 2 s.

create table {schema}.heartbeat_pauses (
    conversation_id text primary key,
    org             text not null,
    agent_id        text not null,
    minutes         int not null,
    until           timestamptz not null
);
create index heartbeat_pauses_until on {schema}.heartbeat_pauses (until);
comment on table {schema}.heartbeat_pauses is 'Conversations whose agents pause; swept every 2 s.';
