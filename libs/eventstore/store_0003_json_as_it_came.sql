-- What clients sent stays as they wrote it. jsonb stores numbers as decimals and prints them in
-- full: 1e308 comes back as 309 digits, so 168 kB of them became an event that no bus takes.

drop view {schema}.event_log;
alter table {schema}.events alter column payload type json using payload::json;
create view {schema}.event_log as
    select l.position, e.occurred_at, e.topic, e.about, e.aggregate_id, e.version, e.org,
           e.payload, e.metadata, e.schema_version
    from {schema}.log l join {schema}.events e on e.position = l.event_position;
comment on view {schema}.event_log is
    'The log for people and for other services: order by position.';
grant select on {schema}.event_log to heeler_reader;

alter table {schema}.snapshots alter column state type json using state::json;

drop view {schema}.dead_letter_view;
alter table {schema}.dead_letters alter column payload type json using payload::json;
create view {schema}.dead_letter_view as
    select id, org, created_at, service, kind, name, subject, message_id, payload, payload_text,
           context, attempts, first_at, last_at, error_class, error_text, correlation_id, status,
           outcome
    from {schema}.dead_letters;
comment on view {schema}.dead_letter_view is 'Dead letters, for the api.';
grant select on {schema}.dead_letter_view to heeler_reader;
