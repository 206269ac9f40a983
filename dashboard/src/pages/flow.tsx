/** Cumulative flow of all topics. Dragging over a stretch of it tells what happened then, and leads to its replay. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { call } from "../api";
import { Chart, type Line } from "../chart";
import { useData } from "../data";
import { count, moment } from "../format";
import { useOverview } from "../overview";
import { Choice, Failure } from "../parts";
import { go, place, setQuery } from "../router";
import { SPAN_NAMES, SPANS, type SpanName } from "../spans";
import { isForward, lastMinutes, NO_STRETCH, rounded, StretchFields, stretchOf, type Stretch } from "../stretch";
import type { Series } from "../types";

function sums(values: number[]): number[] {
  let sum = 0;
  return values.map((value) => (sum += value));
}

/** Each band is as high as the number of messages in that state, and the top edge is what has come in. */
export function flowLines(series: Series): Line[] {
  const of = (name: string): number[] => series.figures[name] ?? series.timestamps.map(() => 0);
  const leased = of("leased");
  const delayed = of("delayed");
  const depth = of("depth");
  const dead = of("dead_lettered");
  const settled = sums(of("acked").map((value, at) => value + (dead[at] ?? 0)));
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

const COUNTED = { published: "published", delivered: "delivered", acked: "acknowledged", failed: "failed", dead_lettered: "dead-lettered" } as const;

/** What was counted in a stretch, as far as the series has it. */
export function within(series: Series, stretch: Stretch): Record<string, number> {
  const inside = series.timestamps.map((at) => at >= stretch.from && at < stretch.to);
  const sum = (name: string): number => (series.figures[name] ?? []).reduce((all, value, at) => all + (inside[at] ? value : 0), 0);
  return Object.fromEntries(Object.entries(COUNTED).map(([name, word]) => [word, sum(name)]));
}

export function Flow({ recent }: { recent: Series }): JSX.Element {
  const [span, setSpan] = useState<SpanName>("5 minutes");
  const isRecent = span === "5 minutes";
  const longer = useData(
    isRecent ? null : `flow ${span}`,
    (signal) => call<Series>(["series"], { query: SPANS[span], signal }),
    15,
  );
  const series = isRecent ? recent : (longer.data ?? recent);
  const lines = useMemo(() => flowLines(series), [series]);
  const stretch = stretchOf(place.value.query);
  return (
    <section aria-label="Flow">
      <div class="replay-head">
        <Choice label="flow, the last" value={span} options={SPAN_NAMES} onChange={setSpan} />
        <button type="button" class="quiet" aria-expanded={stretch !== null} onClick={() => setQuery(stretch ? NO_STRETCH : { ...lastMinutes(2) })}>
          a stretch …
        </button>
        <span class="quiet hint">or drag over the chart</span>
      </div>
      <Failure error={longer.error} />
      <Chart
        label="Cumulative flow"
        times={series.timestamps}
        lines={lines}
        height={200}
        range={stretch}
        onBrush={(from, to) => setQuery({ ...rounded({ from, to }) })}
      />
      {stretch && <Brushed series={series} stretch={stretch} />}
    </section>
  );
}

function Brushed({ series, stretch }: { series: Series; stretch: Stretch }): JSX.Element {
  const { overview } = useOverview({ sort: "in", limit: 100 });
  const topics = overview.rows.map((row) => ({
    value: JSON.stringify([row.namespace, row.name]),
    label: row.namespace === "default" ? row.name : `${row.namespace}/${row.name}`,
  }));
  const told = Object.entries(within(series, stretch)).map(([word, value]) => `${count(value)} ${word}`);
  return (
    <div class="panel">
      <p>
        From {moment(stretch.from)} to {moment(stretch.to)}: {told.join(", ")}.
      </p>
      <div class="row">
        <StretchFields stretch={stretch} onChange={(chosen) => setQuery({ ...chosen })} />
        {isForward(stretch) && (
          <Choice
            label="messages and replay of"
            value=""
            options={[{ value: "", label: "a topic …" }, ...topics]}
            onChange={(picked) => {
              if (picked === "") return;
              const [namespace, topic] = JSON.parse(picked) as [string, string];
              go(["topic", namespace, topic, "messages"], { ...stretch });
            }}
          />
        )}
        <button type="button" onClick={() => setQuery(NO_STRETCH)}>
          Close
        </button>
      </div>
    </div>
  );
}
