-- Runs that have not ended are few among all that there were: they are listed by an index of theirs.

create index runs_active on {schema}.runs (org, created_at, id)
    where status in ('created', 'running');
