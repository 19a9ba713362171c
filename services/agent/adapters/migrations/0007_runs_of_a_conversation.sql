-- Runs are found by their conversation: they go with it, and they are rebuilt from its events.

create index runs_conversation on {schema}.runs (conversation_id, created_at, id);
