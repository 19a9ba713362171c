-- The id in this index orders what was created in one moment. Under its own collation the index
-- cannot be taken for the key of an id, as Postgres does while the table is small, and goes on to do
-- when it has grown, until it is analyzed: then a look at one block reads all that the organisation has.

drop index {schema}.blocks_page;
create index blocks_page on {schema}.blocks (org, created_at, id collate "C");
