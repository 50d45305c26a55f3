-- give_up: READY | SCHEDULED | BLOCKED | LOCKED -> FAILED, because a person says that no retries are left. What its last attempt said
-- stays what it says.
create or replace function celeriac.give_up(held celeriac.queue, principal text) returns void
language plpgsql volatile as $$
declare
    moment timestamptz := celeriac.now();
    before jsonb := coalesce(celeriac.last_failure(held.task_id), '{"error": "no retries are left"}');
begin
    perform celeriac.write_history(moment, held.task_id, 'failed', held.fencing_token, held.attempts, held.leased_at,
                coalesce(held.lease_owner, held.last_owner), give_up.principal,
                before || jsonb_build_object('given_up', true, 'retries', 0, 'run_at', null,
                    'state', celeriac.fail_for_good(held, before ->> 'error', moment, false)));
end $$;
