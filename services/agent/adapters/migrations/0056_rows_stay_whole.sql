-- Rows of up to 8 kB, a page, stay as they are. Above 2 kB Postgres would compress their texts and
-- move them out, which took a sixth of what Postgres does to commit an agent's creation; and whoever
-- reads such a row has to put it together again. It holds for rows that are written from now on.

alter table {schema}.events set (toast_tuple_target = 8160);
alter table {schema}.agents set (toast_tuple_target = 8160);
alter table {schema}.messages set (toast_tuple_target = 8160);
