-- complete_token: a fact for a token that a person or a program works for by its id: done (a user task, a receive task, or work that
-- no worker will do any more: failed for good, or canceled), or to be tried again after an incident (`again`).
-- Refuses: a token that is gone, or done already and not worked in yet (not_found); one that stands on nothing that could be done,
-- or that a worker works for (invalid).
create or replace function celeriac.complete_token(
    token_uid uuid, variables jsonb default '{}', again boolean default false, principal text default null,
    types jsonb default '{}')
returns setof celeriac.started_instance
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    at celeriac.token;
begin
    perform celeriac.read_variables(jsonb_build_object('variables', complete_token.variables), 'token'),
            celeriac.check_types(complete_token.types, complete_token.variables, 'types');
    at := celeriac.hold_token(complete_token.token_uid);
    if again and not at.stuck then
        perform celeriac.refuse('invalid', 'the token has no incident', 'token_id');
    elsif not again and (at.phase <> 'STANDING' or not celeriac.stands_on_work(at)) then
        perform celeriac.refuse('invalid', 'the token stands on nothing that could be completed', 'token_id');
    elsif not again and exists (select from celeriac.task k where k.token_id = at.uid and (not at.stuck or k.state in ('OPEN', 'WAITING'))) then
        perform celeriac.refuse('invalid', 'the token has a task, which a worker completes', 'token_id');
    end if;
    perform celeriac.tell_instance(at.instance_id, case when again then 'continued' else 'completed' end, at.uid,
                jsonb_build_object('variables', complete_token.variables, 'types', complete_token.types));
    return query select at.instance_id, true;
end $$;
