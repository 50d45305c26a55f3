-- load_instance: what an advance needs of an instance, locked until the transaction ends: where it stands, its variables, and the
-- facts that are not worked in yet. Of its tokens those that the facts are about, those that wait for others or have thrown
-- a compensation, and those on subprocesses, unless it is to be the `whole`. `skip`: null at once when somebody else is advancing it.
create or replace function celeriac.load_instance(instance_id uuid, skip boolean default false, whole boolean default false) returns jsonb
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    held celeriac.instance;
    tokens integer[];
    facts bigint[];
begin
    if skip then
        select i.* into held from celeriac.instance i where i.id = load_instance.instance_id for update skip locked;
        if not found then
            return null;
        end if;
    else
        select i.* into held from celeriac.instance i where i.id = load_instance.instance_id for update;
    end if;
    if not found then
        perform celeriac.refuse('not_found', 'there is no such instance');
    elsif held.ended_at is not null then
        -- Told by a task that ended in the same moment: about nothing any more.
        delete from celeriac.fact f where f.instance_id = held.id;
    end if;
    -- Facts are written without a lock on the instance: one that comes from here on is for the next load, since the tokens
    -- that it is about are not looked for in this one.
    facts := array(select f.id from celeriac.fact f where f.instance_id = held.id);
    if not whole then
        tokens := array(
            select t.id from celeriac.fact f join celeriac.token t on t.uid = f.token_uid where f.instance_id = held.id and f.id = any (facts)
             union
            select w.token from celeriac.fact f join celeriac.event_wait w on w.instance_id = held.id and w.id = f.wait_id
             where f.instance_id = held.id and f.id = any (facts)
             union
            select s.host from celeriac.scope s where s.instance_id = held.id and s.host is not null and not s.ended
             union
            select r.id from celeriac.undo_run r where r.instance_id = held.id
             union
            select t.id from celeriac.token t where t.instance_id = held.id and t.phase = 'JOINING');
    end if;
    return jsonb_build_object(
        'instance', to_jsonb(held),
        'now', celeriac.now(),
        'whole', whole,
        'scopes', (select coalesce(jsonb_agg(to_jsonb(s) - 'instance_id'), '[]') from celeriac.scope s where s.instance_id = held.id),
        'tokens', (select coalesce(jsonb_agg(to_jsonb(t) - 'instance_id' - 'entered_at' - 'assignee' - 'duty'), '[]') from celeriac.token t
                    where t.instance_id = held.id and (whole or t.id = any (tokens))),
        'variables', (select coalesce(jsonb_agg(jsonb_build_array(v.scope, v.name, v.value, v.type, v.info)), '[]')
                        from celeriac.variable v where v.instance_id = held.id),
        'waits', (select coalesce(jsonb_agg(to_jsonb(w) - 'instance_id' - 'uid'), '[]') from celeriac.event_wait w
                   where w.instance_id = held.id and (whole or w.token = any (tokens))),
        'undos', (select coalesce(jsonb_agg(to_jsonb(u) - 'instance_id'), '[]') from celeriac.undo u where u.instance_id = held.id),
        'runs', (select coalesce(jsonb_agg(to_jsonb(r) - 'instance_id'), '[]') from celeriac.undo_run r where r.instance_id = held.id),
        'facts', (select coalesce(jsonb_agg(to_jsonb(f) - 'instance_id' order by celeriac.comes_when(f), f.id), '[]') from celeriac.fact f
                   where f.instance_id = held.id and f.id = any (facts)));
end $$;
