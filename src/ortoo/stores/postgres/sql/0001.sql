-- Version 1 of a shard: its tables and the functions that write them. Runs with the shard's schema as search path.

create table owner (
    one boolean primary key default true check (one),
    term bigint not null,
    node text not null,
    token text not null,
    since timestamptz not null default now()
);
insert into owner (term, node, token) values (0, '', '');

create table commits (
    number bigint primary key,
    term bigint not null,
    made timestamptz not null default now(),
    flags smallint not null,
    records bytea not null
);

create table batches (
    topic bigint not null,
    partition int not null,
    base bigint not null,
    until bigint not null,
    messages int not null,
    at bigint not null,
    last_at bigint not null,
    times bytea,
    gaps bytea,
    size bigint not null,
    commit bigint not null,
    ends bytea,
    columns json,
    has_ids boolean not null,
    key_hashes bytea,
    key_name text,
    nonce bytea,
    body bytea not null,
    primary key (topic, partition, base)
);

create table history (
    topic bigint not null,
    partition int not null,
    number bigint not null,
    events int not null,
    first_offset bigint not null,
    last_offset bigint not null,
    commit bigint not null,
    key_name text,
    nonce bytea,
    records bytea not null,
    primary key (topic, partition, number)
);

create table checkpoints (
    number bigint primary key,
    term bigint not null,
    made timestamptz not null default now(),
    at bigint not null,
    manifest bytea not null
);

create table snapshots (
    number bigint not null,
    piece int not null,
    data bytea not null,
    primary key (number, piece)
);

create table encryption_keys (
    name text primary key,
    check_value bytea not null
);

-- Large values lie outside their rows, and are not compressed: parts of them can be read, and it would cost more than it saves.
alter table commits alter records set storage external;
alter table batches alter body set storage external, alter ends set storage external, alter key_hashes set storage external;
alter table history alter records set storage external;
alter table snapshots alter data set storage external;

-- Rows come at one end and go at the other; statistics need not follow every thousand of them.
alter table commits set (autovacuum_vacuum_scale_factor = 0.1, autovacuum_analyze_scale_factor = 1);

-- An owner has a token, too, which its connections tell: a database that goes back gives terms a second time.
create function fence(p_term bigint) returns void language plpgsql as $$
declare
    found_term bigint;
    found_node text;
begin
    -- A share lock, not an update: it leaves no dead row behind, however long somebody holds an old snapshot.
    perform 1 from owner where term = p_term and token = current_setting('ortoo.token', true) for share;
    if not found then
        select term, coalesce(nullif(node, ''), 'nobody') into found_term, found_node from owner;
        if found_term < p_term then
            raise exception using errcode = 'OR002', message = format(
                'term %s was there, and now %s has term %s', p_term, found_node, found_term);
        end if;
        raise exception using errcode = 'OR001', message = format(
            'term %s is over: %s owns this shard with term %s', p_term, found_node, found_term);
    end if;
end $$;

-- Without a term: one above the last one, and above another one that was there before a database went back.
create function claim(p_term bigint, p_above bigint, p_node text) returns bigint language plpgsql as $$
declare
    found_term bigint;
begin
    -- The row is locked first, so that a commit that is being made is finished, and seen by the new owner.
    select term into found_term from owner for update;
    if p_term is not null and p_term <= found_term then
        raise exception using errcode = 'OR001', message = format(
            'term %s is not above %s, which %s has', p_term, found_term,
            (select coalesce(nullif(node, ''), 'nobody') from owner));
    end if;
    found_term := coalesce(p_term, greatest(found_term, p_above) + 1);
    update owner set term = found_term, node = p_node, token = current_setting('ortoo.token'), since = now();
    return found_term;
end $$;

create function append(
    p_term bigint, p_number bigint, p_soft boolean, p_flags smallint, p_records bytea,
    b_topic bigint[], b_partition int[], b_base bigint[], b_until bigint[], b_messages int[], b_at bigint[], b_last_at bigint[],
    b_times bytea[], b_size bigint[], b_columns text[], b_has_ids boolean[], b_key_hashes bytea[], b_key_name text[],
    b_nonce bytea[],
    p_bodies bytea, b_body_at int[], b_body_size int[], p_ends bytea, b_ends_at int[],
    h_topic bigint[], h_partition int[], h_number bigint[], h_events int[], h_first bigint[], h_last bigint[],
    h_key_name text[], h_nonce bytea[], h_records bytea[]
) returns void language plpgsql as $$
begin
    if p_soft then
        perform set_config('synchronous_commit', 'off', true);
    end if;
    perform 1 from owner where term = p_term and token = current_setting('ortoo.token', true) for share;
    if not found then
        perform fence(p_term);
    end if;
    if not exists (select 1 from commits where number = p_number - 1)
        and p_number - 1 <> coalesce((select max(number) from checkpoints), 0) then
        raise exception using errcode = 'OR002', message = format('commit %s is not there, and %s was to follow it', p_number - 1, p_number);
    end if;
    insert into commits (number, term, flags, records) values (p_number, p_term, p_flags, p_records);
    if cardinality(b_topic) > 0 then
        insert into batches (topic, partition, base, until, messages, at, last_at, times, size, commit, ends, columns, has_ids,
                             key_hashes, key_name, nonce, body)
        select u.topic, u.partition, u.base, u.until, u.messages, u.at, u.last_at, u.times, u.size, p_number,
               case when u.key_name is null then substring(p_ends from u.ends_at + 1 for 4 * u.messages) end,
               u.columns::json, u.has_ids, u.key_hashes, u.key_name, u.nonce,
               substring(p_bodies from u.body_at + 1 for u.body_size)
        from unnest(b_topic, b_partition, b_base, b_until, b_messages, b_at, b_last_at, b_times, b_size, b_columns, b_has_ids,
                    b_key_hashes, b_key_name, b_nonce, b_body_at, b_body_size, b_ends_at)
            as u (topic, partition, base, until, messages, at, last_at, times, size, columns, has_ids, key_hashes, key_name,
                  nonce, body_at, body_size, ends_at);
    end if;
    if cardinality(h_topic) > 0 then
        insert into history (topic, partition, number, events, first_offset, last_offset, commit, key_name, nonce, records)
        select u.topic, u.partition, u.number, u.events, u.first, u.last, p_number, u.key_name, u.nonce, u.records
        from unnest(h_topic, h_partition, h_number, h_events, h_first, h_last, h_key_name, h_nonce, h_records)
            as u (topic, partition, number, events, first, last, key_name, nonce, records);
    end if;
end $$;

-- What lies between two bounds of one partition is written anew, as other rows.
create function replace_batches(
    p_term bigint, p_topic bigint, p_partition int, p_start bigint, p_until bigint,
    b_base bigint[], b_until bigint[], b_messages int[], b_at bigint[], b_last_at bigint[], b_times bytea[], b_gaps bytea[],
    b_size bigint[], b_commit bigint[], b_ends bytea[], b_columns text[], b_has_ids boolean[], b_key_hashes bytea[], b_key_name text[],
    b_nonce bytea[], b_body bytea[]
) returns void language plpgsql as $$
begin
    perform fence(p_term);
    delete from batches
    where topic = p_topic and partition = p_partition and base >= p_start and base < p_until;
    insert into batches (topic, partition, base, until, messages, at, last_at, times, gaps, size, commit, ends, columns, has_ids,
                         key_hashes, key_name, nonce, body)
    select p_topic, p_partition, u.base, u.until, u.messages, u.at, u.last_at, u.times, u.gaps, u.size, u.commit, u.ends,
           u.columns::json, u.has_ids, u.key_hashes, u.key_name, u.nonce, u.body
    from unnest(b_base, b_until, b_messages, b_at, b_last_at, b_times, b_gaps, b_size, b_commit, b_ends, b_columns, b_has_ids,
                b_key_hashes, b_key_name, b_nonce, b_body)
        as u (base, until, messages, at, last_at, times, gaps, size, commit, ends, columns, has_ids, key_hashes, key_name, nonce, body);
end $$;

create function replace_history(
    p_term bigint, p_topic bigint, p_partition int, p_start bigint, p_until bigint,
    h_number bigint[], h_events int[], h_first bigint[], h_last bigint[], h_commit bigint[], h_key_name text[],
    h_nonce bytea[], h_records bytea[]
) returns void language plpgsql as $$
begin
    perform fence(p_term);
    delete from history
    where topic = p_topic and partition = p_partition and number >= p_start and number < p_until;
    insert into history (topic, partition, number, events, first_offset, last_offset, commit, key_name, nonce, records)
    select p_topic, p_partition, u.number, u.events, u.first, u.last, u.commit, u.key_name, u.nonce, u.records
    from unnest(h_number, h_events, h_first, h_last, h_commit, h_key_name, h_nonce, h_records)
        as u (number, events, first, last, commit, key_name, nonce, records);
end $$;

-- The pieces of its snapshot are there already; from here on it is the one that counts.
create function checkpoint(p_term bigint, p_number bigint, p_at bigint, p_pieces int, p_manifest bytea)
returns void language plpgsql as $$
begin
    perform fence(p_term);
    -- A database that went back, or lost what it had not made durable yet, must not get a state that builds on what is gone.
    if p_number > 0 and not exists (select 1 from commits where number = p_number)
        and not exists (select 1 from checkpoints where number = p_number) then
        raise exception using errcode = 'OR002', message = format(
            'commit %s is not there, and a checkpoint was to contain it', p_number);
    end if;
    if (select count(*) from snapshots where number = p_number and piece < p_pieces) <> p_pieces then
        raise exception 'pieces of snapshot % are missing', p_number;
    end if;
    delete from snapshots where number < p_number or (number = p_number and piece >= p_pieces) or number > p_number;
    delete from checkpoints;
    insert into checkpoints (number, term, at, manifest) values (p_number, p_term, p_at, p_manifest);
end $$;

create function prune_commits(p_term bigint, p_after bigint, p_until bigint, p_kept bigint[])
returns bigint language plpgsql as $$
declare
    gone bigint;
begin
    perform fence(p_term);
    if not exists (select 1 from checkpoints where number >= p_until) then
        raise exception using errcode = 'OR002', message = format('there is no checkpoint that contains commit %s', p_until);
    end if;
    delete from commits where number > p_after and number <= p_until and number <> all (p_kept);
    get diagnostics gone = row_count;
    return gone;
end $$;

-- Commits of before a checkpoint that were kept for something, and are not needed for that any more.
create function forget_commits(p_term bigint, p_numbers bigint[]) returns void language plpgsql as $$
begin
    perform fence(p_term);
    delete from commits where number = any (p_numbers) and number <= (select max(number) from checkpoints);
end $$;

-- Rows that end at or before a bound, up to so many. Returns how many went, and from where to go on.
create function prune_batches(
    p_term bigint, p_topic bigint, p_partition int, p_from bigint, p_start bigint, p_rows int, out gone bigint, out next bigint
) language plpgsql as $$
begin
    perform fence(p_term);
    with chosen as (
        select base from batches
        where topic = p_topic and partition = p_partition and base >= p_from and until <= p_start
        order by base limit p_rows
    ), removed as (
        delete from batches b using chosen c
        where b.topic = p_topic and b.partition = p_partition and b.base = c.base
        returning b.until
    )
    select count(*), coalesce(max(until), p_from) into gone, next from removed;
end $$;

create function prune_history(p_term bigint, p_topic bigint, p_partition int, p_from bigint, p_until bigint, p_rows int)
returns bigint language plpgsql as $$
declare
    gone bigint;
begin
    perform fence(p_term);
    delete from history h using (
        select number from history
        where topic = p_topic and partition = p_partition and number >= p_from and number < p_until
        order by number limit p_rows
    ) c
    where h.topic = p_topic and h.partition = p_partition and h.number = c.number;
    get diagnostics gone = row_count;
    return gone;
end $$;

create function prune_topic(p_term bigint, p_topic bigint, p_rows int) returns bigint language plpgsql as $$
declare
    messages bigint;
    happened bigint;
begin
    perform fence(p_term);
    delete from batches b using (select partition, base from batches where topic = p_topic limit p_rows) c
    where b.topic = p_topic and b.partition = c.partition and b.base = c.base;
    get diagnostics messages = row_count;
    delete from history h using (select partition, number from history where topic = p_topic limit p_rows) c
    where h.topic = p_topic and h.partition = c.partition and h.number = c.number;
    get diagnostics happened = row_count;
    return messages + happened;
end $$;
