-- standing_of: what of a node of a graph must be the same for a token to go on standing there in another version.
create or replace function celeriac.standing_of(node jsonb) returns jsonb
language sql immutable as $$
    select jsonb_build_object('kind', node -> 'kind', 'scope', node -> 'scope', 'event', node #> '{event,kind}',
                              'host', node -> 'attached_to', 'interrupting', coalesce(node -> 'interrupting', 'true'))
$$;
