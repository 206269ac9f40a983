/** Who works on a group: its consumers, what they hold, and which keys wait behind that. */

import type { JSX } from "preact";
import { call } from "../api";
import { now } from "../clock";
import { useData } from "../data";
import { ago, count, plural, span } from "../format";
import { Mark, Time } from "../marks";
import { Choice, Empty, Failure, Heading, Loading } from "../parts";
import { href, place, setQuery } from "../router";
import type { ConsumerRow, LeaseRow, LockRow, State, TopicView } from "../types";
import { OfTopic } from "./of-topic";

export function ConsumersPage(): JSX.Element {
  return (
    <OfTopic title="Consumers" column={null} figure={(row) => row.groups} none={<Nobody />}>
      {(namespace, topic, choice) => <Groups namespace={namespace} topic={topic} choice={choice} />}
    </OfTopic>
  );
}

function Nobody(): JSX.Element {
  return (
    <Empty title="No groups yet">
      <p>A group is created by its first lease, and is shown here with its consumers.</p>
    </Empty>
  );
}

function Groups({ namespace, topic, choice }: { namespace: string; topic: string; choice: JSX.Element }): JSX.Element {
  const wanted = place.value.query["group"] ?? "";
  const found = useData(
    `consumers ${namespace}\n${topic}`,
    (signal) => call<TopicView>(["topics", topic], { query: { namespace }, signal }),
    5,
  );
  const groups = found.data?.groups.map((group) => group.name) ?? [];
  const group = groups.includes(wanted) ? wanted : (groups[0] ?? null);
  return (
    <>
      <Heading title="Consumers">
        {choice}
        {group !== null && <Choice label="group" value={group} options={groups} onChange={(value) => setQuery({ group: value })} />}
      </Heading>
      <Failure error={found.error} />
      <Loading isLoading={found.isLoading} />
      {found.data && group === null && <Nobody />}
      {group !== null && <Group namespace={namespace} topic={topic} group={group} />}
    </>
  );
}

function Group({ namespace, topic, group }: { namespace: string; topic: string; group: string }): JSX.Element {
  const path = ["topics", topic, "groups", group];
  const key = JSON.stringify([namespace, ...path]);
  const query = { namespace };
  const consumers = useData(`c ${key}`, (signal) => call<{ consumers: ConsumerRow[] }>([...path, "consumers"], { query: { ...query, limit: 1000 }, signal }), 3);
  const locks = useData(`k ${key}`, (signal) => call<{ locks: LockRow[]; total: number }>([...path, "locks"], { query, signal }), 3);
  const leases = useData(`l ${key}`, (signal) => call<{ leases: LeaseRow[]; total: number }>([...path, "leases"], { query, signal }), 3);
  return (
    <>
      <section aria-labelledby="consumers">
        <h2 id="consumers">Consumers</h2>
        <Failure error={consumers.error} />
        {consumers.data && <Consumers rows={consumers.data.consumers} />}
      </section>
      <section aria-labelledby="locks">
        <h2 id="locks">Keys that block others</h2>
        <Failure error={locks.error} />
        {locks.data && <Locks rows={locks.data.locks} total={locks.data.total} />}
      </section>
      <section aria-labelledby="leases">
        <h2 id="leases">Leases</h2>
        <Failure error={leases.error} />
        {leases.data && <Leases rows={leases.data.leases} total={leases.data.total} />}
      </section>
    </>
  );
}

function Consumers({ rows }: { rows: ConsumerRow[] }): JSX.Element {
  if (rows.length === 0) return <p class="calm">This group has no consumers now.</p>;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="All consumers">
      <table>
        <thead>
          <tr>
            <th scope="col">consumer</th>
            <th scope="col" class="num">
              leases
            </th>
            <th scope="col" class="num">
              messages
            </th>
            <th scope="col">partitions</th>
            <th scope="col">oldest lease</th>
            <th scope="col">seen</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.name}>
              <th scope="row" class="mono name">
                {row.name}
              </th>
              <td class="num">{count(row.leases)}</td>
              <td class="num">
                <Mark state="leased" /> {count(row.messages)}
              </td>
              <td>{row.partitions.join(", ") || "–"}</td>
              <td>{row.oldest_lease === null ? "–" : ago(row.oldest_lease)}</td>
              <td>{row.seen === null ? "–" : ago(row.seen)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const STATE_OF: Record<string, State> = { leased: "leased", retrying: "delayed", delayed: "delayed" };

function Locks({ rows, total }: { rows: LockRow[]; total: number }): JSX.Element {
  if (rows.length === 0) return <p class="calm">No key blocks others.</p>;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Key locks">
      <table>
        <thead>
          <tr>
            <th scope="col">key</th>
            <th scope="col" class="num">
              waiting
            </th>
            <th scope="col">held by</th>
            <th scope="col">until</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={`${row.partition} ${row.key ?? ""}`}>
              <th scope="row" class="mono key">
                {row.key ?? `partition ${row.partition}`}
              </th>
              <td class="num">
                <Mark state="blocked" /> {count(row.waiting)}
              </td>
              <td>
                <Mark state={STATE_OF[row.state] ?? "leased"} />{" "}
                {row.holder && (
                  <>
                    <a class="mono" href={href(["message", row.holder.id])}>
                      {row.holder.id}
                    </a>{" "}
                    {row.holder.consumer ?? row.state}
                  </>
                )}
              </td>
              <td>{row.holder?.until ? <Time at={row.holder.until} /> : "–"}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {total > rows.length && <p class="quiet">and {plural(total - rows.length, "other key")}</p>}
    </div>
  );
}

function Leases({ rows, total }: { rows: LeaseRow[]; total: number }): JSX.Element {
  if (rows.length === 0) return <p class="calm">Nothing is leased now.</p>;
  const time = now();
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="All leases">
      <table>
        <thead>
          <tr>
            <th scope="col">lease</th>
            <th scope="col">consumer</th>
            <th scope="col">partition</th>
            <th scope="col">offsets</th>
            <th scope="col" class="num">
              messages
            </th>
            <th scope="col">since</th>
            <th scope="col">ends</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={`${row.lease} ${row.partition} ${row.first}`}>
              <th scope="row" class="mono">
                {row.lease}
              </th>
              <td class="mono">{row.consumer}</td>
              <td>p{row.partition}</td>
              <td class="mono">{row.first === row.last ? row.first : `${row.first} – ${row.last}`}</td>
              <td class="num">{count(row.messages)}</td>
              <td>
                <Time at={row.since} />
              </td>
              <td>
                <Time at={row.until} /> <span class="quiet">{row.until > time ? `in ${span(row.until - time)}` : "over"}</span>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {total > rows.length && <p class="quiet">and {plural(total - rows.length, "other lease")}</p>}
    </div>
  );
}
