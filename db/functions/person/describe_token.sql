-- describe_token: what people are shown of a user task: the parts of `duty` that are there replace what was, null takes them away.
-- Refuses: not_found.
create or replace function celeriac.describe_token(token_uid uuid, duty jsonb, principal text default null) returns void
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    at celeriac.token := celeriac.hold_token(describe_token.token_uid);
begin
    if at.duty is null then
        perform celeriac.refuse('not_found', 'there is no such user task');
    end if;
    update celeriac.token t
       set duty = jsonb_strip_nulls(t.duty || describe_token.duty) || jsonb_build_object('changed_at', celeriac.now())
     where t.uid = at.uid;
end $$;
