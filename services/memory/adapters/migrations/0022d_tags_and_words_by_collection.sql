-- Under their own collation, which only searches for tags and words ask for, these indexes are not
-- taken for a way to all passages of a collection: who filters by dates reads those of the dates alone.

drop index {schema}.passages_words;
create index passages_words on {schema}.passages
    using gin ((collection_id collate "C"), search) with (fastupdate = off);
drop index {schema}.passages_tags;
create index passages_tags on {schema}.passages
    using gin ((collection_id collate "C"), tags) with (fastupdate = off);
