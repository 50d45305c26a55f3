-- is_left: whether a token is gone, or about to leave (see still_waits): what is done for it is done for nothing.
create or replace function celeriac.is_left(token_uid uuid) returns boolean
language sql stable as $$
    select not exists (select from celeriac.token k where k.uid = is_left.token_uid and celeriac.still_waits(k.instance_id, k.id))
$$;
