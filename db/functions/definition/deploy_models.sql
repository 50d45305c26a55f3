-- deploy_models: nothing -> a deployment with its files, and a new version of each process in it. Nothing new when the newest
-- version of every one of them came from the same bytes and options: then these are answered.
create or replace function celeriac.deploy_models(
    name text, resources jsonb, definitions jsonb, report jsonb default '[]', principal text default null)
returns setof celeriac.deployed_definition
language plpgsql security definer set search_path = celeriac, pg_temp
set jit = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    fresh uuid := celeriac.uuid_v7(moment);
    model jsonb;
    made celeriac.definition;
begin
    perform celeriac.check_name(deploy_models.name, 'name'), celeriac.check_items(resources, array['name', 'content'], 100, 'resources'),
            celeriac.check_items(definitions, array['key', 'name', 'version_tag', 'checksum', 'resource', 'graph', 'topics', 'startable', 'starts'], 100, 'definitions');
    -- Two deployments of one process take turns, and their versions are numbered without a gap.
    perform pg_advisory_xact_lock(hashtextextended('celeriac.definition ' || k, 0))
       from (select distinct d ->> 'key' as k from jsonb_array_elements(definitions) d order by 1) keys;
    if not exists (
        select from jsonb_array_elements(definitions) d
          left join lateral (select n.checksum from celeriac.definition n where n.key = d ->> 'key' order by n.version desc limit 1) newest on true
         where newest.checksum is distinct from decode(d ->> 'checksum', 'hex'))
    then
        return query
        select newest.deployment_id, newest.id, newest.key, newest.version, false from jsonb_array_elements(definitions) d
         cross join lateral (select n.* from celeriac.definition n where n.key = d ->> 'key' order by n.version desc limit 1) newest;
        return;
    end if;
    insert into celeriac.deployment (id, name, principal, deployed_at, report)
    values (fresh, deploy_models.name, coalesce(deploy_models.principal, session_user), moment, deploy_models.report);
    insert into celeriac.resource (deployment_id, name, content)
    select fresh, r ->> 'name', decode(r ->> 'content', 'base64') from jsonb_array_elements(resources) r;
    for model in select d from jsonb_array_elements(definitions) d loop
        insert into celeriac.definition (id, key, version, name, version_tag, checksum, deployment_id, resource, graph, topics, startable, deployed_at)
        select celeriac.uuid_v7(moment), model ->> 'key',
               coalesce((select max(n.version) from celeriac.definition n where n.key = model ->> 'key'), 0) + 1,
               model ->> 'name', model ->> 'version_tag', decode(model ->> 'checksum', 'hex'), fresh, model ->> 'resource',
               model -> 'graph', array(select jsonb_array_elements_text(model -> 'topics')),
               (model ->> 'startable')::boolean, moment
        returning * into made;
        perform celeriac.open_starts(made, model -> 'starts', moment);
        return query select fresh, made.id, made.key, made.version, true;
    end loop;
end $$;
