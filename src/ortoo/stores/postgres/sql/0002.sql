-- Version 2 of a shard: the queue as people see it in SQL, and a guard against writing by hand.

create table topics (
    id bigint primary key,
    namespace text not null,
    name text not null,
    created timestamptz not null,
    config json not null,
    as_of timestamptz not null
);

create table partitions (
    topic bigint not null references topics on delete cascade,
    partition int not null,
    start bigint not null,
    until bigint not null,
    bytes bigint not null,
    deleted int8multirange not null,
    primary key (topic, partition)
);

create table groups (
    topic bigint not null references topics on delete cascade,
    id bigint not null,
    name text not null,
    is_ephemeral boolean not null,
    is_paused boolean not null,
    ready bigint not null,
    delayed bigint not null,
    leased bigint not null,
    blocked bigint not null,
    dead bigint not null,
    oldest timestamptz,
    as_of timestamptz not null,
    primary key (topic, id)
);

create table feeds (
    topic bigint not null,
    grp bigint not null,
    partition int not null,
    cursor bigint not null,
    open int8multirange not null,
    leased int8multirange not null,
    delayed int8multirange not null,
    dead int8multirange not null,
    unknown int8range not null,
    primary key (topic, grp, partition),
    foreign key (topic, grp) references groups on delete cascade
);

create table held_leases (
    topic bigint not null,
    grp bigint not null,
    lease bigint not null,
    partition int not null,
    consumer text not null,
    since timestamptz not null,
    until timestamptz not null,
    messages bigint not null,
    offsets int8multirange not null,
    primary key (topic, grp, lease, partition),
    foreign key (topic, grp) references groups on delete cascade
);

-- Topics as they are now, and those that were deleted; or, where p_only is given, all but these were.
create function show_topics(p_term bigint, p_topics json, p_gone bigint[], p_only bigint[])
returns void language plpgsql as $$
begin
    perform fence(p_term);
    perform set_config('synchronous_commit', 'off', true);  -- it is shown again after the next change, or opening
    delete from topics where id = any (p_gone);
    if p_only is not null then
        delete from topics t where not exists (select 1 from unnest(p_only) as s (id) where s.id = t.id);
    end if;
    insert into topics
    select s.id, s.namespace, s.name, to_timestamp(s.created / 1000.0), s.config, to_timestamp(s.at / 1000.0)
    from json_to_recordset(p_topics)
        as s (id bigint, namespace text, name text, created bigint, config json, at bigint)
    on conflict (id) do update set config = excluded.config, as_of = excluded.as_of;
    insert into partitions
    select t.id, s.* from json_to_recordset(p_topics) as t (id bigint, partitions json)
    cross join lateral json_to_recordset(t.partitions)
        as s (partition int, start bigint, until bigint, bytes bigint, deleted int8multirange)
    on conflict (topic, partition) do update
        set start = excluded.start, until = excluded.until, bytes = excluded.bytes, deleted = excluded.deleted
        where (partitions.start, partitions.until, partitions.bytes, partitions.deleted)
            is distinct from (excluded.start, excluded.until, excluded.bytes, excluded.deleted);
    delete from groups g using json_to_recordset(p_topics) as t (id bigint, groups json)
    where g.topic = t.id and not exists (
        select 1 from json_to_recordset(t.groups) as s (id bigint) where s.id = g.id);
    insert into groups
    select t.id, s.id, s.name, s.is_ephemeral, s.is_paused, s.ready, s.delayed, s.leased, s.blocked, s.dead,
           to_timestamp(s.oldest / 1000.0), to_timestamp(t.at / 1000.0)
    from json_to_recordset(p_topics) as t (id bigint, at bigint, groups json)
    cross join lateral json_to_recordset(t.groups)
        as s (id bigint, name text, is_ephemeral boolean, is_paused boolean, ready bigint, delayed bigint, leased bigint,
              blocked bigint, dead bigint, oldest bigint)
    on conflict (topic, id) do update
        set is_paused = excluded.is_paused, ready = excluded.ready, delayed = excluded.delayed, leased = excluded.leased,
            blocked = excluded.blocked, dead = excluded.dead, oldest = excluded.oldest, as_of = excluded.as_of;
    insert into feeds
    select t.id, g.id, s.* from json_to_recordset(p_topics) as t (id bigint, groups json)
    cross join lateral json_to_recordset(t.groups) as g (id bigint, feeds json)
    cross join lateral json_to_recordset(g.feeds)
        as s (partition int, cursor bigint, open int8multirange, leased int8multirange, delayed int8multirange,
              dead int8multirange, unknown int8range)
    on conflict (topic, grp, partition) do update
        set cursor = excluded.cursor, open = excluded.open, leased = excluded.leased, delayed = excluded.delayed,
            dead = excluded.dead, unknown = excluded.unknown
        where (feeds.cursor, feeds.open, feeds.leased, feeds.delayed, feeds.dead, feeds.unknown) is distinct from
            (excluded.cursor, excluded.open, excluded.leased, excluded.delayed, excluded.dead, excluded.unknown);
    delete from held_leases l using json_to_recordset(p_topics) as t (id bigint) where l.topic = t.id;
    insert into held_leases
    select t.id, g.id, s.lease, s.partition, s.consumer, to_timestamp(s.since / 1000.0), to_timestamp(s.until / 1000.0),
           s.messages, s.offsets
    from json_to_recordset(p_topics) as t (id bigint, groups json)
    cross join lateral json_to_recordset(t.groups) as g (id bigint, leases json)
    cross join lateral json_to_recordset(g.leases)
        as s (lease bigint, partition int, consumer text, since bigint, until bigint, messages bigint,
              offsets int8multirange);
end $$;

-- Helpers of the views. Numbers in bytea are big-endian. Their bodies are bound to this schema, whatever the search path of
-- whoever looks.
create function number_at(data bytea, at int, bytes int) returns bigint language sql immutable strict parallel safe
begin atomic
    select ('x' || lpad(encode(substring(data from at + 1 for bytes), 'hex'), 16, '0'))::bit(64)::bigint;
end;

-- Numbers of 4 bytes, as many as there are. What lies outside of its row is read once, and not again for each number; the numbers
-- are found before they are sorted, or each would bring all of it along.
create function numbers_of(data bytea) returns bigint[] language sql immutable strict parallel safe
begin atomic
    select array_agg(n.number order by n.i)
    from (
        select i, number_at(d.data, 4 * i, 4) as number
        from (select data || ''::bytea as data offset 0) d, generate_series(0, length(data) / 4 - 1) i
        offset 0
    ) n;
end;

-- The instant of each message: `times` has those from which on another one is true.
create function instants_of(times bytea, messages int) returns bigint[] language sql immutable strict parallel safe
begin atomic
    select array_agg(s.at order by s.first, r)
    from (
        select number_at(d.times, 12 * i, 4)::int as first, number_at(d.times, 12 * i + 4, 8) as at,
               coalesce(number_at(nullif(substring(d.times from 12 * i + 13 for 4), ''), 0, 4), messages)::int as until
        from (select times || ''::bytea as times offset 0) d, generate_series(0, length(times) / 12 - 1) i
        offset 0
    ) s, generate_series(s.first, s.until - 1) r;
end;

-- Text that a publisher wrote, as a number, if it is one.
create function number_in(told text) returns bigint language sql immutable strict parallel safe
begin atomic
    select case when told ~ '^[0-9]{1,18}$' then told::bigint end;
end;

-- JSON that can be looked into: PostgreSQL's texts cannot hold NUL, which becomes U+FFFD.
create function without_nul(j json) returns json language sql immutable strict parallel safe
begin atomic
    select case when position('\u0000' in j::text) > 0
        then regexp_replace(j::text, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g')::json
        else j end;
end;

-- What a batch has in one piece is taken apart once: `x` comes before `m`, which needs it, and what nobody asks for is not made.
-- Behind `m` there are no arrays any more, which a sort would carry along with each message.
create view messages as
select t.namespace, t.name as topic, b.partition,
       m."offset",
       format('%s.%s.%s', b.topic, b.partition, m."offset") as id,
       to_timestamp(m.at / 1000.0) as published_at,
       m.key #>> '{}' as key,
       case when b.key_name is null then substring(b.body from m.start + 1 for m.until - m.start) end as value,
       nullif(m.headers::text, 'null')::json as headers,
       coalesce((m.priority #>> '{}')::int, 5) as priority,
       to_timestamp(nullif((m.due #>> '{}')::bigint, 0) / 1000.0) as due_at,
       to_timestamp(nullif((m.expiry #>> '{}')::bigint, 0) / 1000.0) as expires_at,
       m.dedup_id #>> '{}' as dedup_id,
       m.publisher #>> '{}' as publisher,
       b.key_name as encrypted_with
from topics t
join partitions p on p.topic = t.id
join batches b on b.topic = t.id and b.partition = p.partition and b.until > p.start
cross join lateral (
    select b.messages - 1 as last, without_nul(b.columns) as columns, instants_of(b.times, b.messages) as instants,
           numbers_of(b.gaps) as gaps, numbers_of(b.ends) as ends
    offset 0
) x
cross join lateral (
    select b.base + coalesce(x.gaps[e.r + 1], e.r) as "offset", coalesce(x.instants[e.r + 1], b.at) as at,
           coalesce(x.ends[e.r], 0)::int as start, x.ends[e.r + 1]::int as until,
           e.key, e.headers, e.priority, e.due, e.expiry, e.dedup_id,
           case json_typeof(x.columns -> 'publishers') when 'array' then e.publisher else x.columns -> 'publishers' end
               as publisher
    from rows from (
        generate_series(0, x.last),
        json_array_elements(x.columns -> 'keys'),
        json_array_elements(x.columns -> 'headers'),
        json_array_elements(x.columns -> 'priorities'),
        json_array_elements(x.columns -> 'dues'),
        json_array_elements(x.columns -> 'expires'),
        json_array_elements(x.columns -> 'dedup_ids'),
        json_array_elements(case json_typeof(x.columns -> 'publishers') when 'array' then x.columns -> 'publishers' end)
    ) as e (r, key, headers, priority, due, expiry, dedup_id, publisher)
    offset 0
) m
where m."offset" >= p.start and not m."offset" <@ p.deleted;

create view message_states as
select m.namespace, m.topic, g.name as grp, m.partition, m."offset", m.id, m.published_at, m.key,
       case when m."offset" <@ f.leased then 'leased'
            when m."offset" <@ f.delayed then 'delayed'
            when m."offset" <@ f.dead then 'dead'
            when m."offset" <@ f.unknown then null
            when m."offset" <@ f.open or m."offset" >= f.cursor then 'ready'
            else 'done' end as state,
       g.as_of
from messages m
join topics t on t.namespace = m.namespace and t.name = m.topic
join groups g on g.topic = t.id
join feeds f on f.topic = t.id and f.grp = g.id and f.partition = m.partition;

-- Anybody may publish anything, also headers that look like those of a dead letter.
create view dead_letters as
select m.namespace, m.topic as dlq, m."offset", m.id,
       o.name as topic,
       m.headers ->> 'ortoo-group' as grp,
       m.headers ->> 'ortoo-reason' as reason,
       m.headers ->> 'ortoo-error' as error,
       case when m.headers ->> 'ortoo-attempts' ~ '^[0-9]{1,9}$' then (m.headers ->> 'ortoo-attempts')::int end as attempts,
       m.headers ->> 'ortoo-origin' as origin,
       m.published_at as died_at, m.key, m.value
from messages m
left join topics o on o.id = number_in(split_part(m.headers ->> 'ortoo-origin', '.', 1))
where m.headers ->> 'ortoo-origin' ~ '^[0-9]{1,18}[.][0-9]{1,9}[.][0-9]{1,18}$'
    and (m.topic like '%.dlq' or exists (
        select 1 from topics s where s.namespace = m.namespace and s.config ->> 'dlq_topic' = m.topic));

create view leases as
select t.namespace, t.name as topic, g.name as grp, l.lease, l.consumer, l.partition, l.since, l.until,
       l.messages, l.offsets, g.as_of
from held_leases l
join groups g on g.topic = l.topic and g.id = l.grp
join topics t on t.id = l.topic;

create view groups_lag as
select t.namespace, t.name as topic, g.name as grp, g.ready, g.leased, g.delayed, g.blocked, g.dead,
       g.ready + g.leased + g.delayed + g.blocked as lag,
       g.oldest as oldest_at, g.is_paused, g.as_of
from groups g
join topics t on t.id = g.topic;

-- Whoever writes by hand breaks what the queue holds in memory, and what it has promised.
create function refuse_writing_by_hand() returns trigger language plpgsql as $$
begin
    raise exception using errcode = 'insufficient_privilege',
        message = format('%I.%I is the queue''s: it is not to be written by hand', tg_table_schema, tg_table_name),
        hint = 'Use the queue: ortoo publish, purge, delete, redrive. SELECT is always fine.';
end $$;

do $$
declare
    name text;
begin
    foreach name in array array['owner', 'commits', 'batches', 'history', 'checkpoints', 'snapshots', 'encryption_keys',
                                'topics', 'partitions', 'groups', 'feeds', 'held_leases', 'migrations'] loop
        execute format(
            'create trigger by_hand before insert or update or delete or truncate on %I for each statement '
            'when (current_setting(''ortoo.writer'', true) is distinct from ''queue'') '
            'execute function refuse_writing_by_hand()', name);
    end loop;
end $$;

comment on table owner is 'Who owns the shard: one row. Every write names its term, and is refused when another one is here.';
comment on column owner.one is 'Always true: there is one row.';
comment on column owner.term is 'Grows with each owner.';
comment on column owner.node is 'Host and process of the owner.';
comment on column owner.token is 'Tells owners apart that have the same term, which a database gives again after it went back.';
comment on column owner.since is 'When it took the shard.';
comment on table commits is 'What happened since the last checkpoint, commit by commit. Messages are in batches.';
comment on column commits.number is 'Counts commits, without a gap.';
comment on column commits.term is 'Of the owner that made it.';
comment on column commits.made is 'When it was made, as the database has it.';
comment on column commits.flags is '2: the records are in one plain section. 256: something was staged in a transaction.';
comment on column commits.records is 'The records, as MessagePack; those of encrypted topics are encrypted.';
comment on table batches is 'Messages: a row is a stretch of one partition. The view messages has one row for each message.';
comment on column batches.topic is 'Number of the topic: topics.id.';
comment on column batches.partition is 'The partition.';
comment on column batches.base is 'The first offset that it covers.';
comment on column batches.until is 'The offset after the last one that it covers.';
comment on column batches.messages is 'How many messages it has.';
comment on column batches.at is 'When the first was published, in milliseconds since 1970.';
comment on column batches.last_at is 'When the last was published.';
comment on column batches.times is 'Where they were not published at one instant: for each instant 4 bytes, the row from which on, and 8 bytes, the instant.';
comment on column batches.gaps is 'Where some offsets are gone: of each message its offset less the base, in 4 bytes.';
comment on column batches.size is 'Bytes of values, keys and headers.';
comment on column batches.commit is 'The commit that brought it; of merged rows, the last.';
comment on column batches.ends is 'Of each message, where its value ends in the body, in 4 bytes. None where the topic is encrypted.';
comment on column batches.columns is 'The other fields: a list each, none for a field that no message uses.';
comment on column batches.has_ids is 'Whether some have dedup ids.';
comment on column batches.key_hashes is 'Of keys, 8 bytes a message, where the topic is in key order.';
comment on column batches.key_name is 'The key that the body is encrypted with; none where it is not.';
comment on column batches.nonce is 'The nonce that it is encrypted with.';
comment on column batches.body is 'The values, one behind the other; or encrypted values, keys, headers and dedup ids.';
comment on table history is 'What happened to messages: leased, acked, retried, … A row has some records of one partition.';
comment on column history.topic is 'Number of the topic: topics.id.';
comment on column history.partition is 'The partition.';
comment on column history.number is 'Of the first record: those of a partition are numbered for ever.';
comment on column history.events is 'How many records it has.';
comment on column history.first_offset is 'The first offset that they speak of.';
comment on column history.last_offset is 'The last offset that they speak of.';
comment on column history.commit is 'The commit that brought it; of merged rows, the last.';
comment on column history.key_name is 'The key that it is encrypted with; none where it is not.';
comment on column history.nonce is 'The nonce that it is encrypted with.';
comment on column history.records is 'The records, as MessagePack.';
comment on table checkpoints is 'The last checkpoint: what a queue begins with when it is opened.';
comment on column checkpoints.number is 'The last commit that it contains.';
comment on column checkpoints.term is 'Of the owner that made it.';
comment on column checkpoints.made is 'When it was made, as the database has it.';
comment on column checkpoints.at is 'When it was made, as the queue has it: milliseconds since 1970.';
comment on column checkpoints.manifest is 'Topics, where logs and histories begin and end, open transactions; as MessagePack.';
comment on table snapshots is 'The state of delivery as of a checkpoint, in pieces.';
comment on column snapshots.number is 'Of the checkpoint.';
comment on column snapshots.piece is 'Counts the pieces, from 0.';
comment on column snapshots.data is 'Its bytes.';
comment on table encryption_keys is 'Which encryption keys were used, and how to tell whether one is still the same. Not the keys.';
comment on column encryption_keys.name is 'The name of the key.';
comment on column encryption_keys.check_value is 'Tells whether two keys are the same, and nothing else about them.';
comment on table migrations is 'Which versions of this schema were installed, and when.';
comment on column migrations.version is 'The version.';
comment on column migrations.at is 'When it was installed.';
comment on column migrations.by_version is 'The version of the queue that did it.';
comment on table topics is 'The topics, about a second behind, or more where very many change: as_of tells.';
comment on column topics.id is 'Number of the topic: one that is deleted and created again gets another.';
comment on column topics.namespace is 'Its namespace.';
comment on column topics.name is 'Its name.';
comment on column topics.created is 'When it was created.';
comment on column topics.config is 'Its settings.';
comment on column topics.as_of is 'How new this is.';
comment on table partitions is 'Where the log of each partition begins and ends; as new as its topic.';
comment on column partitions.topic is 'Number of the topic: topics.id.';
comment on column partitions.partition is 'The partition.';
comment on column partitions.start is 'Messages before were removed.';
comment on column partitions.until is 'The offset of the next message.';
comment on column partitions.bytes is 'Bytes of values, keys and headers.';
comment on column partitions.deleted is 'Messages that were deleted one by one, and may still lie in batches; the first ranges, where there are many.';
comment on table groups is 'Consumer groups and what they have before them; as new as their topics.';
comment on column groups.topic is 'Number of the topic: topics.id.';
comment on column groups.id is 'Number of the group.';
comment on column groups.name is 'Its name.';
comment on column groups.is_ephemeral is 'Whether it goes with its consumer.';
comment on column groups.is_paused is 'Whether it gets nothing for now.';
comment on column groups.ready is 'Messages that can be leased.';
comment on column groups.delayed is 'Messages that are not due yet, or wait for a retry.';
comment on column groups.leased is 'Messages that consumers hold.';
comment on column groups.blocked is 'Messages behind an earlier one of their key or partition.';
comment on column groups.dead is 'Messages that the group gave up, and whose dead letters are there.';
comment on column groups.oldest is 'When the oldest message was published that the group has not settled.';
comment on column groups.as_of is 'How new this is.';
comment on table feeds is 'The state of delivery of a group in a partition, as sets of offsets; as new as its group.';
comment on column feeds.topic is 'Number of the topic: topics.id.';
comment on column feeds.grp is 'Number of the group: groups.id.';
comment on column feeds.partition is 'The partition.';
comment on column feeds.cursor is 'From this offset on, the group has not looked at messages yet: they are ready, unless they are delayed.';
comment on column feeds.open is 'Messages before the cursor that are not settled, in whatever state.';
comment on column feeds.leased is 'Those that consumers hold.';
comment on column feeds.delayed is 'Those that are not due yet, or wait for a retry.';
comment on column feeds.dead is 'Those that the group gave up.';
comment on column feeds.unknown is 'False where a set has too many gaps to be shown whole: its first offsets are here, and counts in groups are right.';
comment on table held_leases is 'Leases: messages that consumers hold; as new as their group. The view leases has names.';
comment on column held_leases.topic is 'Number of the topic: topics.id.';
comment on column held_leases.grp is 'Number of the group: groups.id.';
comment on column held_leases.lease is 'Number of the lease.';
comment on column held_leases.partition is 'The partition.';
comment on column held_leases.consumer is 'The consumer that has it.';
comment on column held_leases.since is 'When it was given.';
comment on column held_leases.until is 'When it runs out.';
comment on column held_leases.messages is 'How many messages it holds in the partition.';
comment on column held_leases.offsets is 'Which; the first ranges, where there are many.';

comment on view messages is 'Every message that is there, less those that were deleted, as far as that is shown. Values of encrypted topics are not.';
comment on column messages.namespace is 'Namespace of its topic.';
comment on column messages.topic is 'Name of its topic.';
comment on column messages.partition is 'Its partition.';
comment on column messages."offset" is 'Its place in the partition.';
comment on column messages.id is 'Its id: topic number, partition and offset.';
comment on column messages.published_at is 'When it was published.';
comment on column messages.key is 'Its key. NUL is shown as U+FFFD.';
comment on column messages.value is 'Its value, as bytes: convert_from(value, ''UTF8'') shows text.';
comment on column messages.headers is 'Its headers, as JSON.';
comment on column messages.priority is 'Its priority: lower is sooner.';
comment on column messages.due_at is 'When it becomes due, if it was delayed.';
comment on column messages.expires_at is 'When it expires, if it does.';
comment on column messages.dedup_id is 'Its dedup id.';
comment on column messages.publisher is 'Who published it, as the server knows it.';
comment on column messages.encrypted_with is 'Name of the key that it is encrypted with; none where it is not.';
comment on view message_states is 'Every message for every group, and its state there: ready, delayed, leased, done, dead; none where it is not known.';
comment on column message_states.namespace is 'Namespace of its topic.';
comment on column message_states.topic is 'Name of its topic.';
comment on column message_states.grp is 'Name of the group.';
comment on column message_states.partition is 'Its partition.';
comment on column message_states."offset" is 'Its place in the partition.';
comment on column message_states.id is 'Its id.';
comment on column message_states.published_at is 'When it was published.';
comment on column message_states.key is 'Its key.';
comment on column message_states.state is 'ready, delayed, leased, done or dead; none where the sets in feeds have too many gaps to be shown. One that waits behind another of its key is ready here.';
comment on column message_states.as_of is 'How new this is.';
comment on view dead_letters is 'Copies of messages that groups gave up.';
comment on column dead_letters.namespace is 'Namespace of both topics.';
comment on column dead_letters.dlq is 'The topic that has the copy.';
comment on column dead_letters."offset" is 'Where it lies there.';
comment on column dead_letters.id is 'Id of the copy.';
comment on column dead_letters.topic is 'The topic that the message was published to; none where that was deleted.';
comment on column dead_letters.grp is 'The group that gave it up.';
comment on column dead_letters.reason is 'Why: attempts, timeout, rejected, ttl, …';
comment on column dead_letters.error is 'What the consumer said.';
comment on column dead_letters.attempts is 'How often it was delivered.';
comment on column dead_letters.origin is 'Id of the message itself.';
comment on column dead_letters.died_at is 'When it was given up.';
comment on column dead_letters.key is 'Its key.';
comment on column dead_letters.value is 'Its value, as bytes.';
comment on view leases is 'What consumers hold now.';
comment on column leases.namespace is 'Namespace of the topic.';
comment on column leases.topic is 'Name of the topic.';
comment on column leases.grp is 'Name of the group.';
comment on column leases.lease is 'Number of the lease.';
comment on column leases.consumer is 'The consumer that has it.';
comment on column leases.partition is 'The partition.';
comment on column leases.since is 'When it was given.';
comment on column leases.until is 'When it runs out.';
comment on column leases.messages is 'How many messages it holds.';
comment on column leases.offsets is 'Which; the first ranges, where there are many.';
comment on column leases.as_of is 'How new this is.';
comment on view groups_lag is 'How far each group is behind.';
comment on column groups_lag.namespace is 'Namespace of the topic.';
comment on column groups_lag.topic is 'Name of the topic.';
comment on column groups_lag.grp is 'Name of the group.';
comment on column groups_lag.ready is 'Messages that can be leased.';
comment on column groups_lag.leased is 'Messages that consumers hold.';
comment on column groups_lag.delayed is 'Messages that are not due yet, or wait for a retry.';
comment on column groups_lag.blocked is 'Messages behind an earlier one of their key or partition.';
comment on column groups_lag.dead is 'Messages that the group gave up.';
comment on column groups_lag.lag is 'All that it has not settled.';
comment on column groups_lag.oldest_at is 'When the oldest of these was published.';
comment on column groups_lag.is_paused is 'Whether it gets nothing for now.';
comment on column groups_lag.as_of is 'How new this is.';
