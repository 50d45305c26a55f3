-- deploy_models: nothing -> a deployment with its files, and a new version of each process in it. `duplicates`, what is not new:
-- newest: nothing, when the newest version of every process came from the same bytes and options: these are answered. keep: all
-- is new. files: nothing, when the newest files of these names in deployments of this name have the same bytes: the newest of those
-- deployments is answered. changed: the same, and of files the changed ones only. Without a process: one row, of the deployment.
create or replace function celeriac.deploy_models(
    name text, resources jsonb, definitions jsonb, report jsonb default '[]', principal text default null, source text default null,
    duplicates text default 'newest', active_from timestamptz default null)
returns setof celeriac.deployed_definition
language plpgsql security definer set search_path = celeriac, pg_temp
set jit = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    fresh uuid := celeriac.uuid_v7(moment);
    same text[] := '{}';
    model jsonb;
    made celeriac.definition;
begin
    if deploy_models.name is not null or duplicates = 'newest' then
        perform celeriac.check_name(deploy_models.name, 'name');
    end if;
    if deploy_models.source is not null then
        perform celeriac.check_name(deploy_models.source, 'source');
    end if;
    if not duplicates = any (array['newest', 'keep', 'files', 'changed']) then
        perform celeriac.refuse('invalid', 'duplicates must be newest, keep, files or changed', 'duplicates');
    end if;
    perform celeriac.check_items(resources, array['name', 'content'], 100, 'resources');
    if duplicates = 'newest' or definitions <> '[]' then
        perform celeriac.check_items(definitions, array['key', 'name', 'version_tag', 'category', 'description', 'checksum', 'resource',
                    'graph', 'topics', 'startable', 'starts'], 100, 'definitions');
    end if;
    if duplicates in ('files', 'changed') then
        perform pg_advisory_xact_lock(hashtextextended('celeriac.deployment ' || coalesce(deploy_models.name, ''), 0));
        same := array(
            select r ->> 'name' from jsonb_array_elements(resources) r
             cross join lateral (
                select o.content from celeriac.resource o join celeriac.deployment d on d.id = o.deployment_id
                 where o.name = r ->> 'name' and d.name = deploy_models.name
                   and (d.source is null or d.source is not distinct from deploy_models.source)
                 order by d.id desc limit 1) old
             where old.content = decode(r ->> 'content', 'base64'));
        if cardinality(same) = jsonb_array_length(resources) then
            return query
            select old.id, d.id, d.key, d.version, false
              from (select o.id from celeriac.deployment o where o.name = deploy_models.name order by o.id desc limit 1) old
              left join celeriac.definition d on d.deployment_id = old.id;
            return;
        elsif duplicates = 'files' then
            same := '{}';
        end if;
    end if;
    -- Two deployments of one process take turns, and their versions are numbered without a gap.
    perform pg_advisory_xact_lock(hashtextextended('celeriac.definition ' || k, 0))
       from (select distinct d ->> 'key' as k from jsonb_array_elements(definitions) d order by 1) keys;
    if duplicates = 'newest' and not exists (
        select from jsonb_array_elements(definitions) d
          left join lateral (select n.checksum from celeriac.definition n where n.key = d ->> 'key' order by n.version desc limit 1) newest on true
         where newest.checksum is distinct from decode(d ->> 'checksum', 'hex'))
    then
        return query
        select newest.deployment_id, newest.id, newest.key, newest.version, false from jsonb_array_elements(definitions) d
         cross join lateral (select n.* from celeriac.definition n where n.key = d ->> 'key' order by n.version desc limit 1) newest;
        return;
    end if;
    insert into celeriac.deployment (id, name, source, principal, deployed_at, report)
    values (fresh, deploy_models.name, deploy_models.source, coalesce(deploy_models.principal, session_user), moment, deploy_models.report);
    insert into celeriac.resource (deployment_id, name, content)
    select fresh, r ->> 'name', decode(r ->> 'content', 'base64') from jsonb_array_elements(resources) r where r ->> 'name' <> all (same);
    for model in select d from jsonb_array_elements(definitions) d where d ->> 'resource' <> all (same) loop
        insert into celeriac.definition (id, key, version, name, version_tag, category, description, checksum, deployment_id, resource,
                                         graph, topics, startable, active_from, passages, deployed_at)
        select celeriac.uuid_v7(moment), model ->> 'key',
               coalesce((select max(n.version) from celeriac.definition n where n.key = model ->> 'key'), 0) + 1,
               model ->> 'name', model ->> 'version_tag', model ->> 'category', model ->> 'description',
               decode(model ->> 'checksum', 'hex'), fresh, model ->> 'resource',
               model -> 'graph', array(select jsonb_array_elements_text(model -> 'topics')),
               (model ->> 'startable')::boolean, deploy_models.active_from,
               array(select e.id from jsonb_array_elements(model -> 'graph' -> 'nodes') n
                      cross join lateral (values (n ->> 'id'), (n ->> 'link')) e (id) where n ->> 'kind' = 'link'), moment
        returning * into made;
        perform celeriac.open_starts(made, model -> 'starts', moment);
        return query select fresh, made.id, made.key, made.version, true;
    end loop;
    if made.id is null then
        return query select fresh, null::uuid, null::text, null::integer, true;
    end if;
end $$;
