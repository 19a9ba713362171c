-- The meaning of messages that somebody has searched. No event says what stands here: it follows from
-- the messages and the model, is made when it is first wanted, and left as it is by a rebuild. Each
-- row has what a search is narrowed by, so that one reads nothing of anybody else.

create table {schema}.message_vectors (
    message_id      text primary key,
    org             text not null,
    agent_id        text not null,
    conversation_id text not null,
    role            text not null,
    created_at      timestamptz not null,
    model           text not null,
    embedding       halfvec not null
);
alter table {schema}.message_vectors alter column embedding set storage main;
create index message_vectors_agent on {schema}.message_vectors (agent_id, created_at);
create index message_vectors_conversation on {schema}.message_vectors (conversation_id, created_at);
create index message_vectors_org on {schema}.message_vectors (org collate "C", created_at);
comment on table {schema}.message_vectors is 'Messages by their meaning; in no view.';

create table {schema}.message_backlog (
    org             text not null,
    agent_id        text not null,
    conversation_id text not null,
    asked_at        timestamptz not null,
    worked_at       timestamptz not null,
    primary key (org, agent_id, conversation_id)
);
comment on table {schema}.message_backlog is
    'Histories that were searched and are not embedded yet; an empty id means all.';

create table {schema}.forgotten_conversations (
    conversation_id text primary key,
    org             text not null,
    deleted_at      timestamptz not null
);
comment on table {schema}.forgotten_conversations is
    'Deleted conversations whose vectors are removed bit by bit.';
