/** What becomes due when: a week by hours. */

import type { JSX } from "preact";
import { call } from "../api";
import { now } from "../clock";
import { useData } from "../data";
import { clock, count, day, plural, short } from "../format";
import { Empty, Failure, Heading, Loading } from "../parts";
import { href, place } from "../router";
import { stretchOf, type Stretch } from "../stretch";
import type { DelayedAnswer } from "../types";
import { DueList } from "./due";
import { OfTopic } from "./of-topic";

const HOUR = 3600;
const DAYS = 7;

export function DelayedPage(): JSX.Element {
  return (
    <OfTopic title="Delayed" state="delayed" column="backlog" figure={(row) => row.delayed} none={<NoneDelayed />}>
      {(namespace, topic, choice) => (
        <>
          <Heading title="Delayed">{choice}</Heading>
          <DelayedCalendar namespace={namespace} topic={topic} />
        </>
      )}
    </OfTopic>
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

/** Midnight here, so many days from today. */
function midnight(days: number): number {
  const today = new Date(now() * 1000);
  return new Date(today.getFullYear(), today.getMonth(), today.getDate() + days).getTime() / 1000;
}

export interface Cell extends Stretch {
  count: number;
}

/** Days with their cells by the hour, as clocks show it: where they are set, an hour is missing or counts twice. */
export function calendar(answer: Pick<DelayedAnswer, "from" | "seconds" | "counts">): Map<string, (Cell | undefined)[]> {
  const days = new Map<string, (Cell | undefined)[]>();
  for (const [at, value] of answer.counts.entries()) {
    const from = answer.from + at * answer.seconds;
    const name = day(from);
    const row = days.get(name) ?? Array.from({ length: 24 }, () => undefined);
    const hour = new Date(from * 1000).getHours();
    const old = row[hour];
    row[hour] = { from: old?.from ?? from, to: from + answer.seconds, count: value + (old?.count ?? 0) };
    days.set(name, row);
  }
  return days;
}

/** From 0 to 4: how dark a cell is. By its logarithm, so that one message can be seen beside a thousand. */
export function heat(value: number, most: number): number {
  if (value <= 0) return 0;
  return Math.max(1, Math.min(4, Math.ceil((4 * Math.log1p(value)) / Math.log1p(Math.max(1, most)))));
}

export function DelayedCalendar({ namespace, topic }: { namespace: string; topic: string }): JSX.Element {
  const from = midnight(0);
  const buckets = Math.ceil((midnight(DAYS) - from) / HOUR);
  const found = useData(
    JSON.stringify(["delayed", namespace, topic, from]),
    (signal) =>
      call<DelayedAnswer>(["topics", topic, "delayed"], { query: { namespace, from, to: from + buckets * HOUR, buckets }, signal }),
    5,
  );
  const answer = found.data;
  const stretch = stretchOf(place.value.query, "due_");
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
          <Week answer={answer} />
        </>
      )}
      {stretch && <DueList key={JSON.stringify([namespace, topic, stretch])} namespace={namespace} topic={topic} stretch={stretch} />}
    </section>
  );
}

function Week({ answer }: { answer: DelayedAnswer }): JSX.Element {
  const most = Math.max(0, ...answer.counts);
  return (
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
          {[...calendar(answer)].map(([name, cells]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              {cells.map((cell, hour) => (
                <HourCell key={hour} cell={cell} most={most} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function HourCell({ cell, most }: { cell: Cell | undefined; most: number }): JSX.Element {
  if (cell === undefined || cell.count === 0) return <td class="h0" />;
  const { path, query } = place.value;
  const told = `${plural(cell.count, "message")} due from ${day(cell.from)} ${clock(cell.from)}`;
  return (
    <td class={`h${heat(cell.count, most)}`}>
      <a
        href={href(path, { ...query, due_from: cell.from, due_to: cell.to })}
        aria-label={told}
        title={told}
        aria-current={query["due_from"] === String(cell.from) ? "true" : undefined}
      >
        {short(cell.count)}
      </a>
    </td>
  );
}
