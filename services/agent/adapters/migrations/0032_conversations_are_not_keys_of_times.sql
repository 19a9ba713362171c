-- As 0009 did for ids: under its own collation the conversation in this index orders what was said in
-- one moment, and cannot be taken for the key of a conversation, for which Postgres read all messages
-- of the organisation.

drop index {schema}.messages_recent;
create index messages_recent
    on {schema}.messages (org, created_at, conversation_id collate "C", position);
