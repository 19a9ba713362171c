-- What models cost, by which the costs of steps are counted when they are read.

create table {schema}.prices (
    model        text not null,
    since        timestamptz not null,
    version      text not null,
    input        numeric not null,
    cached_input numeric not null,
    cache_write  numeric not null,
    output       numeric not null,
    primary key (model, since)
);
comment on table {schema}.prices is
    'US dollars for a million tokens, from when on: a copy of the tables that the service reads.';
create view {schema}.price_view as
    select model, since, version, input, cached_input, cache_write, output from {schema}.prices;
grant select on {schema}.price_view to heeler_reader;
