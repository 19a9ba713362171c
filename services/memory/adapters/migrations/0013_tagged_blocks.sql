-- Blocks that have tags are few among all: which tags there are is read from these alone.

create index blocks_tagged on {schema}.blocks (org) where doc->'tags' <> '[]';
create view {schema}.block_tag_view as
    select b.org, t.tag
    from {schema}.blocks b cross join lateral jsonb_array_elements_text(
        case jsonb_typeof(b.doc->'tags') when 'array' then b.doc->'tags' else '[]' end) t (tag)
    where b.doc->'tags' <> '[]';
comment on view {schema}.block_tag_view is 'The tags of each block.';
grant select on {schema}.block_tag_view to heeler_reader;
