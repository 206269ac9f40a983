/** What the analytics job found in the lake: figures that outlive a restart. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { call, Problem } from "../api";
import { Chart, type Line } from "../chart";
import { useData } from "../data";
import { count, short, span } from "../format";
import { Time } from "../marks";
import { Choice, Empty, Failure, Heading, Loading, Snippet } from "../parts";
import { place, setQuery } from "../router";
import type { Figures, Report } from "../types";

export function HistoryPage(): JSX.Element {
  const topic = place.value.query["topic"] ?? "";
  const report = useData(`history ${topic}`, (signal) => call<Report>(["analytics", "history"], { query: { topic }, signal }), 60);
  const isMissing = report.error instanceof Problem && report.error.status === 404;
  const names = [...new Set(report.data?.topics.map((row) => row.topic) ?? [])];
  return (
    <>
      <Heading title="History">
        {(names.length > 1 || topic) && (
          <Choice
            label="topic"
            value={topic}
            options={[{ value: "", label: "all" }, ...(names.includes(topic) || !topic ? names : [topic, ...names])]}
            onChange={(value) => setQuery({ topic: value })}
          />
        )}
      </Heading>
      {!isMissing && <Failure error={report.error} />}
      <Loading isLoading={report.isLoading} />
      {isMissing && (
        <Empty title="No history yet">
          <p>{report.error?.message}</p>
          <p>The archive keeps messages and what happened to them as Parquet files; the analytics summarize them by hour, over any period:</p>
          <Snippet label="commands" text={COMMANDS} />
        </Empty>
      )}
      {report.data && <Found report={report.data} />}
    </>
  );
}

const COMMANDS = ["ortoo pipeline archive --to ./lake --once", "ortoo pipeline analyze --lake ./lake"].join("\n");

/** Sums by hour over all topics and groups. */
export function hourly(report: Report): { times: number[]; lines: Line[] } {
  const hours = [...new Set(report.hourly.map((row) => row.hour))].sort((one, other) => one - other);
  const at = new Map(hours.map((hour, index) => [hour, index]));
  const sum = (pick: (row: Figures) => number | null): number[] => {
    const values = hours.map(() => 0);
    for (const row of report.hourly) {
      const index = at.get(row.hour) ?? 0;
      values[index] = (values[index] ?? 0) + (pick(row) ?? 0);
    }
    return values;
  };
  return {
    times: hours,
    lines: [
      { label: "published", colour: "--ready", values: sum((row) => row.published) },
      { label: "acknowledged", colour: "--done", values: sum((row) => row.acknowledged) },
      { label: "retried", colour: "--delayed", values: sum((row) => row.retried) },
      { label: "dead-lettered", colour: "--dead", values: sum((row) => row.dead_lettered) },
    ],
  };
}

function millis(value: number | null): string {
  return value === null ? "–" : span(value / 1000);
}

function Found({ report }: { report: Report }): JSX.Element {
  const { times, lines } = useMemo(() => hourly(report), [report]);
  return (
    <>
      <p class="quiet">
        from <Time at={report.since} /> to <Time at={report.until} />, found <Time at={report.generated_at} />
      </p>
      {times.length > 1 && <Chart label="Messages by hour" times={times} lines={lines} height={220} />}
      <h2>Topics and groups</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="Figures by topic and group">
        <table>
          <thead>
            <tr>
              {["topic", "group"].map((name) => (
                <th key={name} scope="col">
                  {name}
                </th>
              ))}
              {["published", "delivered", "acked", "retried", "dead", "lag", "delivery p50", "delivery p95", "ack p95"].map((name) => (
                <th key={name} scope="col" class="num">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {report.topics.map((row) => (
              <tr key={`${row.topic}\n${row.group ?? ""}`}>
                <th scope="row" class="name">
                  {row.topic}
                </th>
                <td>{row.group ?? "–"}</td>
                <td class="num">{short(row.published)}</td>
                <td class="num">{short(row.delivered)}</td>
                <td class="num">{short(row.acknowledged)}</td>
                <td class="num">{short(row.retried)}</td>
                <td class="num">{short(row.dead_lettered)}</td>
                <td class="num">{span(row.lag_seconds)}</td>
                <td class="num">{millis(row.delivery_p50_ms)}</td>
                <td class="num">{millis(row.delivery_p95_ms)}</td>
                <td class="num">{millis(row.ack_p95_ms)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {report.errors.length > 0 && (
        <>
          <h2>Errors</h2>
          <ul class="lines">
            {report.errors.map((row) => (
              <li key={`${row.topic} ${row.group ?? ""} ${row.error}`}>
                <strong class="num">{count(row.count)}</strong> <span class="mono">{row.error}</span>{" "}
                <span class="quiet">
                  {row.topic} {row.group ?? ""}, last <Time at={row.last} />
                </span>
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}
