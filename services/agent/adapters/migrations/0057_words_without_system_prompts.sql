-- The words of what was said. A search looks through no system prompts, as with V1: each has all of
-- its agent's memory in it, and to index its words took a third of what Postgres
-- does to commit an agent's creation.

drop index {schema}.messages_words;
create index messages_words on {schema}.messages
    using gin (to_tsvector('simple', left(text, 20000))) with (gin_pending_list_limit = 256)
    where role <> 'system';
