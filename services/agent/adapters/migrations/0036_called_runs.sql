-- Runs that one agent has another one answer: who called, and what led to it.

create table {schema}.called_runs (
    run_id                 text primary key,
    org                    text not null,
    conversation_id        text not null,
    caller_run_id          text not null,
    caller_conversation_id text not null,
    waits                  boolean not null,
    callers                jsonb not null
);
create index called_runs_conversation on {schema}.called_runs (conversation_id);
create index called_runs_caller on {schema}.called_runs (caller_conversation_id);
comment on table {schema}.called_runs is
    'Runs for other agents; callers led to the run, the last of them called it.';
