create table {schema}.counters (id text primary key, org text not null, total int not null);
create view {schema}.counter_view as select id, org, total from {schema}.counters;
grant select on {schema}.counter_view to heeler_reader;
