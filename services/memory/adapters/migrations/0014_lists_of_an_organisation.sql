-- Indexes of the blocks that an organisation has, in the order of its lists. Under their own
-- collation, which only lists ask for, they cannot be taken for a key by who looks up blocks by their
-- ids and checks that they are this organisation's, as Postgres does until the table is analyzed.

drop index {schema}.blocks_page;
create index blocks_page on {schema}.blocks (org collate "C", created_at, id collate "C");
drop index {schema}.blocks_label;
create index blocks_label on {schema}.blocks (org collate "C", label collate "C");
