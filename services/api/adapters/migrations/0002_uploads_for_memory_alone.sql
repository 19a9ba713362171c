-- What clients upload may be anything, and nobody but the memory service reads it.

revoke select on {schema}.upload_part_view from heeler_reader;
grant select on {schema}.upload_part_view to heeler_memory;
