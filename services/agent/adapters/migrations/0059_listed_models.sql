-- A model that can be used by its name need not be offered to who asks for all.
alter table {schema}.models add column listed boolean not null default true;
create or replace view {schema}.model_view as
    select handle, kind, position, doc, listed from {schema}.models;
