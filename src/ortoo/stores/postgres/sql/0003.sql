-- Version 3 of a shard: whether commits that were confirmed may wait in a buffer.

create table buffer (
    one boolean primary key default true check (one),
    name text not null,
    era bigint not null,
    is_open boolean not null,
    first bigint not null,
    known bigint not null,
    term bigint not null,
    token text not null,
    node text not null,
    place text not null,
    run text not null,
    identity text not null,
    timeline text not null,
    since timestamptz not null default now()
);

create function open_buffer(
    p_term bigint, p_name text, p_era bigint, p_first bigint, p_node text, p_place text, p_run text, p_identity text,
    p_timeline text
) returns void language plpgsql as $$
begin
    perform fence(p_term);
    if current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'on', true);
    end if;
    delete from buffer;
    insert into buffer (name, era, is_open, first, known, term, token, node, place, run, identity, timeline)
    values (p_name, p_era, true, p_first, p_first - 1, p_term, current_setting('ortoo.token'), p_node, p_place, p_run, p_identity,
            p_timeline);
end $$;

create function note_buffer(p_term bigint, p_era bigint, p_known bigint) returns void language plpgsql as $$
begin
    perform fence(p_term);
    perform set_config('synchronous_commit', 'off', true);
    update buffer set known = p_known where era = p_era and known < p_known;
end $$;

create function close_buffer(p_term bigint) returns void language plpgsql as $$
begin
    perform fence(p_term);
    update buffer set is_open = false;
end $$;

create trigger by_hand before insert or update or delete or truncate on buffer for each statement
    when (current_setting('ortoo.writer', true) is distinct from 'queue') execute function refuse_writing_by_hand();

comment on table buffer is 'Whether commits that were confirmed may wait in a buffer outside of the database: one row, or none.';
comment on column buffer.one is 'Always true: there is one row.';
comment on column buffer.name is 'Name of the buffer: random.';
comment on column buffer.era is 'Grows each time that the buffer is begun anew.';
comment on column buffer.is_open is 'Whether commits may wait there.';
comment on column buffer.first is 'The first commit that went there.';
comment on column buffer.known is 'A commit that was confirmed there; there may be later ones.';
comment on column buffer.term is 'Term of the owner that put them there.';
comment on column buffer.token is 'Token of that owner.';
comment on column buffer.node is 'Host and process of that owner.';
comment on column buffer.place is 'Where the buffer is, without passwords.';
comment on column buffer.run is 'Which run of its server it was: another one after each restart.';
comment on column buffer.identity is 'Which database this was then: a copy finds another one.';
comment on column buffer.timeline is 'The timeline of the database then.';
comment on column buffer.since is 'When it was begun.';
