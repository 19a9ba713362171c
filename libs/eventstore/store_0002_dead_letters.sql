-- Messages that were tried before, and those that nobody tries any more.

create table {schema}.attempts (
    message_id text primary key,
    attempts   int not null,
    first_at   timestamptz not null default now(),
    last_at    timestamptz not null default now(),
    free_at    timestamptz not null
);
comment on table {schema}.attempts is
    'How often a message was tried in vain. Nobody begins the next attempt before free_at: somebody
works on it, or it rests. A message that is handled at its first attempt never stands here.';

create table {schema}.dead_letters (
    id             text primary key,
    org            text not null,
    created_at     timestamptz not null,
    service        text not null,
    kind           text not null check (kind in ('command', 'event', 'run')),
    name           text not null,
    subject        text not null,
    message_id     text not null,
    payload        jsonb,
    payload_text   text,
    context        jsonb not null,
    attempts       int not null,
    first_at       timestamptz not null,
    last_at        timestamptz not null,
    error_class    text not null,
    error_text     text not null,
    correlation_id text not null,
    status         text not null check (status in ('parked', 'replaying', 'replayed')),
    outcome        jsonb
);
create index dead_letters_page on {schema}.dead_letters (org, created_at, id);
create index dead_letters_open on {schema}.dead_letters (org) where status <> 'replayed';
comment on table {schema}.dead_letters is
    'Messages that were given up. payload is what was sent, payload_text what was no JSON.';

create view {schema}.dead_letter_view as
    select id, org, created_at, service, kind, name, subject, message_id, payload, payload_text,
           context, attempts, first_at, last_at, error_class, error_text, correlation_id, status,
           outcome
    from {schema}.dead_letters;
comment on view {schema}.dead_letter_view is 'Dead letters, for the api.';
grant select on {schema}.dead_letter_view to heeler_reader;
