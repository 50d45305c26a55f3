-- throw_token: a fact for a token that a person works for by its id: a business error, which the model may catch.
-- Refuses: not_found; invalid for one that has a task, which a worker ends.
create or replace function celeriac.throw_token(
    token_uid uuid, error_code text, error_message text default null, variables jsonb default '{}', types jsonb default '{}',
    principal text default null)
returns setof celeriac.started_instance
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    at celeriac.token;
begin
    perform celeriac.check_name(throw_token.error_code, 'error_code');
    perform celeriac.read_variables(jsonb_build_object('variables', throw_token.variables), 'token'),
            celeriac.check_types(throw_token.types, throw_token.variables, 'types');
    at := celeriac.hold_token(throw_token.token_uid);
    if exists (select from celeriac.task k where k.token_id = at.uid) then
        perform celeriac.refuse('invalid', 'the token has a task, which a worker completes', 'token_id');
    end if;
    perform celeriac.tell_instance(at.instance_id, 'thrown', at.uid, jsonb_build_object(
        'code', throw_token.error_code, 'message', celeriac.cut_text(throw_token.error_message, 8192),
        'variables', throw_token.variables, 'types', throw_token.types));
    return query select at.instance_id, true;
end $$;
