/** All at a glance: what needs somebody, then how it flows, then which topics are busiest and slowest. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { call } from "../api";
import { Chart, type Line } from "../chart";
import { useData } from "../data";
import { count, rate, short, span } from "../format";
import { GLYPHS, Tally, Time } from "../marks";
import { useOverview } from "../overview";
import { Failure, Heading, Loading } from "../parts";
import { href } from "../router";
import { Arrow, Spark } from "../spark";
import type { Need, Series, TopicRow, Totals } from "../types";
import { FirstMessage } from "./first";

const WINDOW = 300;

export function OverviewPage(): JSX.Element {
  const busiest = useOverview({ sort: "in", limit: 8 });
  const slowest = useOverview({ sort: "oldest", limit: 8 });
  const series = useData("series", (signal) => call<Series>(["series"], { query: { count: WINDOW }, signal }), 5);
  const { totals, needs } = busiest.overview;
  return (
    <>
      <Heading title="Overview" />
      {busiest.error && <p class="failure">{busiest.error}</p>}
      <Loading isLoading={totals === null && busiest.error === null} />
      {totals && <TotalsLine totals={totals} series={series.data} />}
      {totals && totals.topics === 0 && <FirstMessage />}
      {totals && totals.topics > 0 && <Needs needs={needs} />}
      <Failure error={series.error} />
      {series.data && totals && totals.topics > 0 && <Flow series={series.data} />}
      {totals && totals.topics > 0 && (
        <div class="columns">
          <Ranking title="Busiest" rows={busiest.overview.rows.filter((row) => row.in > 0)} calm="Nothing comes in now." figure={(row) => rate(row.in)} what="messages in" />
          <Ranking title="Slowest" rows={slowest.overview.rows.filter((row) => row.oldest_seconds > 0)} calm="Nothing waits." figure={(row) => span(row.oldest_seconds)} what="oldest waiting" />
        </div>
      )}
    </>
  );
}

function TotalsLine({ totals, series }: { totals: Totals; series: Series | null }): JSX.Element {
  const of = (name: string): number[] => series?.figures[name]?.slice(-60) ?? [];
  const figures: { label: string; text: string; values: number[]; note?: JSX.Element }[] = [
    { label: "in", text: rate(totals.in), values: of("published") },
    { label: "out", text: rate(totals.out), values: of("delivered") },
    { label: "acknowledged", text: rate(totals.acked), values: of("acked") },
    { label: "failed", text: rate(totals.failed), values: of("failed") },
    { label: "backlog", text: short(totals.backlog), values: of("depth"), note: <Arrow values={of("depth")} /> },
    {
      label: "oldest",
      text: span(totals.oldest_seconds),
      values: of("oldest_pending_seconds"),
      note: <Arrow values={of("oldest_pending_seconds")} />,
    },
  ];
  return (
    <section aria-label="Totals">
      <dl class="totals">
        {figures.map(({ label, text, values, note }) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>
              <strong>{text}</strong>
              {note}
              <Spark values={values} />
            </dd>
          </div>
        ))}
      </dl>
      <p class="tallies">
        <Tally state="leased" value={totals.leased} exact /> <Tally state="delayed" value={totals.delayed} exact />{" "}
        <Tally state="dead" value={totals.dead} exact />
        <span class="quiet">
          {count(totals.topics)} topics · {count(totals.connections)} connections
        </span>
      </p>
    </section>
  );
}

const MARKS: Record<string, string> = {
  dead_letters: GLYPHS.dead,
  blocked_key: GLYPHS.blocked,
  lag_growing: "▲",
  stalled_consumer: GLYPHS.leased,
};

function target(need: Need): string | null {
  const { namespace, topic, group } = need;
  if (namespace === null || topic === null) return null;
  if (need.kind === "dead_letters") return href(["topic", namespace, topic, "dead"], { group });
  if (need.kind === "blocked_key" || need.kind === "stalled_consumer") return href(["consumers"], { namespace, topic, group });
  return href(["topic", namespace, topic, "groups"], { group });
}

function Needs({ needs }: { needs: Need[] }): JSX.Element {
  return (
    <section aria-labelledby="needs">
      <h2 id="needs">Needs you</h2>
      {needs.length === 0 ? (
        <p class="calm">Nothing. Consumers keep up, and nothing is stuck.</p>
      ) : (
        <ul class="needs">
          {needs.map((need) => {
            const link = target(need);
            const key = [need.kind, need.namespace, need.topic, need.group, need.key, need.text].join("\n");
            return (
              <li key={key} class={need.severity}>
                <span class="need-mark" aria-hidden="true">
                  {MARKS[need.kind] ?? "!"}
                </span>
                <span class="sr">{need.severity}:</span>
                <span class="need-text">{need.text}</span>
                {need.since !== null && (
                  <span class="quiet">
                    since <Time at={need.since} />
                  </span>
                )}
                {link && (
                  <a href={link} aria-label={`open: ${need.text}`}>
                    open
                  </a>
                )}
              </li>
            );
          })}
        </ul>
      )}
    </section>
  );
}

function sums(values: number[]): number[] {
  let sum = 0;
  return values.map((value) => (sum += value));
}

/** Cumulative flow: each band is as high as the number of messages in that state, and the top edge is what has come in. */
export function flowLines(series: Series): Line[] {
  const of = (name: string): number[] => series.figures[name] ?? series.timestamps.map(() => 0);
  const leased = of("leased");
  const delayed = of("delayed");
  const depth = of("depth");
  const settled = sums(of("acked").map((value, at) => value + (of("dead_lettered")[at] ?? 0)));
  const at = (values: number[], index: number): number => values[index] ?? 0;
  const withLeased = settled.map((value, index) => value + at(leased, index));
  const withReady = settled.map((value, index) => value + Math.max(at(depth, index) - at(delayed, index), at(leased, index)));
  const withDelayed = withReady.map((value, index) => value + at(delayed, index));
  return [
    { label: "delayed", colour: "--delayed", fill: true, values: withDelayed },
    { label: "ready", colour: "--ready", fill: true, values: withReady },
    { label: "leased", colour: "--leased", fill: true, values: withLeased },
    { label: "done", colour: "--done", fill: true, values: settled },
  ];
}

function Flow({ series }: { series: Series }): JSX.Element {
  const lines = useMemo(() => flowLines(series), [series]);
  return (
    <section aria-label="Flow">
      <Chart label="Cumulative flow, the last five minutes" times={series.timestamps} lines={lines} height={200} />
    </section>
  );
}

interface RankingProps {
  title: string;
  rows: TopicRow[];
  figure: (row: TopicRow) => string;
  what: string;
  calm: string;
}

function Ranking({ title, rows, figure, what, calm }: RankingProps): JSX.Element {
  return (
    <section aria-labelledby={title}>
      <h2 id={title}>{title}</h2>
      {rows.length === 0 ? (
        <p class="calm">{calm}</p>
      ) : (
        <table>
          <thead>
            <tr>
              <th scope="col">topic</th>
              <th scope="col" class="num">
                {what}
              </th>
              <th scope="col" class="num">
                backlog
              </th>
              <th scope="col">trend</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={`${row.namespace}\n${row.name}`}>
                <td class="name">
                  <a href={href(["topic", row.namespace, row.name])}>{row.name}</a>
                  {row.namespace !== "default" && <span class="quiet"> {row.namespace}</span>}
                </td>
                <td class="num">{figure(row)}</td>
                <td class="num">{short(row.depth)}</td>
                <td>
                  <Spark values={row.trend} width={56} height={16} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}
