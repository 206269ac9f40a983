/** All at a glance: what needs somebody, then how it flows, then which topics are busiest and slowest. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { call } from "../api";
import { useData } from "../data";
import { bytes, count, rate, short, span } from "../format";
import { GLYPHS, Tally, Time } from "../marks";
import { useOverview } from "../overview";
import { Failure, Heading, Loading } from "../parts";
import { href } from "../router";
import { Percentiles } from "../latency";
import { Arrow, Spark } from "../spark";
import type { Need, Series, ServerMemory, TopicRow, Totals } from "../types";
import { Activity } from "./activity";
import { FirstMessage } from "./first";
import { Flow } from "./flow";

const WINDOW = 300;
const RANKED = 8;

/** Topics for dead letters are neither busy nor slow: they are told of by what needs somebody. */
export function ranked(rows: TopicRow[], figure: (row: TopicRow) => number): TopicRow[] {
  return rows.filter((row) => !row.is_dlq && figure(row) > 0).slice(0, RANKED);
}

export function OverviewPage(): JSX.Element {
  const busiest = useOverview({ sort: "in", limit: 2 * RANKED });
  const slowest = useOverview({ sort: "oldest", limit: 2 * RANKED });
  const series = useData("series", (signal) => call<Series>(["series"], { query: { count: WINDOW }, signal }), 5);
  const { totals, needs, memory } = busiest.overview;
  return (
    <>
      <Heading title="Overview" />
      {busiest.error && <p class="failure">{busiest.error}</p>}
      <Loading isLoading={totals === null && busiest.error === null} />
      {totals && <TotalsLine totals={totals} memory={memory} series={series.data} />}
      {totals && totals.topics === 0 && <FirstMessage />}
      {totals && totals.topics > 0 && <Needs needs={needs} />}
      <Failure error={series.error} />
      {totals && totals.topics > 0 && <div class="flow">{series.data && <Flow recent={series.data} />}</div>}
      {totals && totals.topics > 0 && (
        <div class="columns">
          <Ranking title="Busiest" rows={ranked(busiest.overview.rows, (row) => row.in)} calm="Nothing comes in now." figure={(row) => rate(row.in)} what="messages in" />
          <Ranking title="Slowest" rows={ranked(slowest.overview.rows, (row) => row.oldest_seconds)} calm="Nothing waits." figure={(row) => span(row.oldest_seconds)} what="oldest waiting" />
          <Activity />
        </div>
      )}
    </>
  );
}

function TotalsLine({ totals, memory, series }: { totals: Totals; memory: ServerMemory | null; series: Series | null }): JSX.Element {
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
              <Spark values={values} width={56} />
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
        {memory && <Memory memory={memory} />}
      </p>
      <p class="facts latencies">
        <Percentiles what="published → delivered" latency={totals.delivery_latency} />
        <Percentiles what="delivered → acknowledged" latency={totals.ack_latency} />
      </p>
    </section>
  );
}

function Memory({ memory }: { memory: ServerMemory }): JSX.Element {
  const { resident_bytes: resident, requests_bytes: requests, requests_bytes_max: most, parked_bytes: parked } = memory;
  const told = `the server's process; of it ${bytes(requests)} are requests that it serves${parked > 0 ? `, ${bytes(parked)} of them wait for room in a full topic` : ""}`;
  return (
    <span class="quiet" title={told}>
      memory {bytes(resident)} · requests {bytes(requests)}
      {most > 0 && ` of ${bytes(most)}`}
    </span>
  );
}

const MARKS: Record<string, string> = {
  dead_letters: GLYPHS.dead,
  blocked_key: GLYPHS.blocked,
  lag_growing: "▲",
  stalled_consumer: GLYPHS.leased,
  pipeline: "⇉",
};

function target(need: Need): string | null {
  const { namespace, topic, group } = need;
  if (need.kind === "pipeline") return href(["pipelines"]);
  if (namespace === null || topic === null) return null;
  if (need.kind === "dead_letters") return href(["topic", namespace, topic, "dead"], { group, dead_group: group });
  if (need.kind === "blocked_key" || need.kind === "stalled_consumer") return href(["consumers"], { namespace, topic, group });
  return href(["topic", namespace, topic, "groups"], { group });
}

const FEW = 3;

/** The worst few, in a place of their own size: what comes and goes moves nothing. */
function Needs({ needs }: { needs: Need[] }): JSX.Element {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? needs : needs.slice(0, FEW);
  return (
    <section aria-labelledby="needs" class="needs-frame">
      <h2 id="needs">Needs you</h2>
      {needs.length === 0 ? (
        <p class="calm">Nothing: consumers keep up, and nothing is stuck.</p>
      ) : (
        <ul class="needs">
          {shown.map((need) => (
            <NeedLine key={JSON.stringify([need.kind, need.namespace, need.topic, need.group, need.key])} need={need} />
          ))}
        </ul>
      )}
      <p class="needs-more">
        {needs.length > FEW && (
          <button type="button" class="quiet" aria-expanded={isWhole} onClick={() => setWhole(!isWhole)}>
            {isWhole ? "fewer" : `${count(needs.length - FEW)} more`}
          </button>
        )}
      </p>
    </section>
  );
}

function NeedLine({ need }: { need: Need }): JSX.Element {
  const link = target(need);
  return (
    <li class={need.severity}>
      <span class="need-mark" aria-hidden="true">
        {MARKS[need.kind] ?? "!"}
      </span>
      <span class="sr">{need.severity}:</span>
      <span class="need-text" title={need.text}>
        {need.text}
      </span>
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
    <section aria-labelledby={title} class="ranking">
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
