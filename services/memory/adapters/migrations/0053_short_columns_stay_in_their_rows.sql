-- A row that is over 2 kB, as each with a vector of 1,024 numbers or more, is made smaller by moving
-- columns out of it, and all but the vector were: a search looked up the organisation and the model of
-- every passage somewhere else, two to three pages each. What a search reads of each row stays in it now;
-- texts and documents go out, which are read of those that are found. It holds for rows that are written
-- from now on: `make rebuild` writes all of them.

alter table {schema}.passages
    alter column id set storage main,
    alter column org set storage main,
    alter column collection_id set storage main,
    alter column owner_id set storage main,
    alter column file_id set storage main,
    alter column tags set storage main,
    alter column embedding_model set storage main;

alter table {schema}.message_vectors
    alter column message_id set storage main,
    alter column org set storage main,
    alter column agent_id set storage main,
    alter column conversation_id set storage main,
    alter column role set storage main,
    alter column model set storage main;
