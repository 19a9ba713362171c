-- Clients that are to be told that their run has ended: a row from its acceptance until they were, or
-- it was given up.

create table {schema}.callbacks (
    run_id          text primary key,
    org             text not null,
    conversation_id text not null,
    url             text not null,
    attempts        int not null,
    next_at         timestamptz not null
);
create index callbacks_due on {schema}.callbacks (next_at);
create index callbacks_conversation on {schema}.callbacks (conversation_id);
comment on table {schema}.callbacks is 'Clients that wait to be told; swept every 2 s.';
