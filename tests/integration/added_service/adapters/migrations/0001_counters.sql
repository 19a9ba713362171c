create table {schema}.counters (id text primary key, org text not null, total int not null);
