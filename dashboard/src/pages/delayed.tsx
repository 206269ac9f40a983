/** What becomes due when: a week by hours. */

import type { JSX } from "preact";
import { call } from "../api";
import { useData } from "../data";
import { clock, count, day, plural } from "../format";
import { useOverview } from "../overview";
import { Choice, Empty, Failure, Heading, Loading } from "../parts";
import { href, place, setQuery } from "../router";
import type { DelayedAnswer } from "../types";

const HOUR = 3600;
const DAYS = 7;

export function DelayedPage(): JSX.Element {
  const { overview, error } = useOverview({ sort: "backlog", limit: 100 });
  const rows = overview.rows.filter((row) => row.delayed > 0);
  const wanted = place.value.query["topic"];
  const chosen = rows.find((row) => `${row.namespace}/${row.name}` === wanted) ?? rows[0];
  return (
    <>
      <Heading title="Delayed">
        {chosen && (
          <Choice
            label="topic"
            value={`${chosen.namespace}/${chosen.name}`}
            options={rows.map((row) => ({
              value: `${row.namespace}/${row.name}`,
              label: `${row.namespace === "default" ? "" : `${row.namespace}/`}${row.name} ◷${count(row.delayed)}`,
            }))}
            onChange={(value) => setQuery({ topic: value })}
          />
        )}
      </Heading>
      {error && <p class="failure">{error}</p>}
      <Loading isLoading={overview.timestamp === 0 && error === null} />
      {overview.timestamp > 0 && rows.length === 0 && <NoneDelayed />}
      {chosen && <DelayedCalendar namespace={chosen.namespace} topic={chosen.name} />}
    </>
  );
}

function NoneDelayed(): JSX.Element {
  return (
    <Empty title="Nothing is delayed">
      <p>
        A message published with <code>delay</code> or <code>deliver_at</code>, or one that is to be tried again later, waits here
        until it is due.
      </p>
    </Empty>
  );
}

/** Midnight of today, here. */
function midnight(): number {
  const now = new Date();
  return new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime() / 1000;
}

/** From 0 to 4: how dark a cell is. By its logarithm, so that one message can be seen beside a thousand. */
export function heat(value: number, most: number): number {
  if (value <= 0) return 0;
  return Math.max(1, Math.min(4, Math.ceil((4 * Math.log1p(value)) / Math.log1p(Math.max(1, most)))));
}

export function DelayedCalendar({ namespace, topic }: { namespace: string; topic: string }): JSX.Element {
  const from = midnight();
  const to = from + DAYS * 24 * HOUR;
  const found = useData(
    JSON.stringify(["delayed", namespace, topic, from]),
    (signal) =>
      call<DelayedAnswer>(["topics", topic, "delayed"], { query: { namespace, from, to, buckets: DAYS * 24 }, signal }),
    5,
  );
  const answer = found.data;
  const most = Math.max(0, ...(answer?.counts ?? []));
  return (
    <section aria-label="Delayed messages by day and hour">
      <Failure error={found.error} />
      <Loading isLoading={found.isLoading} />
      {answer?.total === 0 && <NoneDelayed />}
      {answer && answer.total > 0 && (
        <>
          <p>
            {plural(answer.total, "message")} delayed
            {answer.earlier > 0 && `, ${count(answer.earlier)} due before today`}
            {answer.later > 0 && `, ${count(answer.later)} due after this week`}.{" "}
            <a href={href(["topic", namespace, topic, "messages"], { state: "delayed" })}>List them</a>
          </p>
          <div class="scroll" tabIndex={0} role="region" aria-label="Calendar">
            <table class="heat">
              <thead>
                <tr>
                  <th scope="col">day</th>
                  {Array.from({ length: 24 }, (_, hour) => (
                    <th key={hour} scope="col">
                      {String(hour).padStart(2, "0")}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {Array.from({ length: DAYS }, (_, row) => (
                  <tr key={row}>
                    <th scope="row">{day(from + row * 24 * HOUR + HOUR)}</th>
                    {Array.from({ length: 24 }, (_, hour) => {
                      const at = row * 24 + hour;
                      const value = answer.counts[at] ?? 0;
                      const start = answer.from + at * answer.seconds;
                      return (
                        <td key={hour} class={`h${heat(value, most)}`} title={`${plural(value, "message")} due from ${day(start)} ${clock(start)}`}>
                          {value > 0 ? count(value) : ""}
                        </td>
                      );
                    })}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </>
      )}
    </section>
  );
}
