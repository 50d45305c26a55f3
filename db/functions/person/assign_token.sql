-- assign_token: a user task is this person's, or (null) nobody's. With `claim` it must be nobody's or theirs already.
-- Refuses: not_found, also one that is done and not worked in yet; already_ended when somebody else has claimed it.
create or replace function celeriac.assign_token(
    token_uid uuid, assignee text, claim boolean default false, principal text default null)
returns void
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    at celeriac.token;
begin
    if assign_token.assignee is not null then
        perform celeriac.check_name(assign_token.assignee, 'assignee');
    end if;
    at := celeriac.hold_token(assign_token.token_uid);
    if at.duty is null then
        perform celeriac.refuse('not_found', 'there is no such user task');
    elsif claim and at.assignee is not null and at.assignee is distinct from assign_token.assignee then
        perform celeriac.refuse('already_ended', 'somebody else has claimed it');
    end if;
    update celeriac.token t
       set assignee = assign_token.assignee, duty = t.duty || jsonb_build_object('changed_at', celeriac.now())
     where t.uid = at.uid and t.assignee is distinct from assign_token.assignee;
end $$;
