/** The lag over time. Dragging over a stretch of it offers to deliver the messages of that time again, and says how many. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { call } from "../api";
import { Chart } from "../chart";
import { useData } from "../data";
import { ask, toast } from "../dialog";
import { count, moment, plural, span as duration } from "../format";
import { Action, Choice, Elsewhere, Failure } from "../parts";
import { place, setQuery } from "../router";
import { curl, python, text } from "../snippets";
import { Arrow } from "../spark";
import { SPAN_NAMES, SPANS, type SpanName } from "../spans";
import { isForward, lastMinutes, NO_STRETCH, rounded, StretchFields, stretchOf, type Stretch } from "../stretch";
import type { SeekPreview, Series } from "../types";
import type { TabProps } from "./topic";

export function Replay({ topic, reload }: TabProps): JSX.Element {
  const names = topic.groups.map((group) => group.name);
  const { query } = place.value;
  const group = names.includes(query["group"] ?? "") ? (query["group"] ?? "") : (names[0] ?? "");
  const [span, setSpan] = useState<SpanName>("5 minutes");
  const range = stretchOf(query);
  const where = { namespace: topic.namespace, topic: topic.name, group };
  const series = useData(
    JSON.stringify(["lag", where, span]),
    (signal) => call<Series>(["series"], { query: { ...where, ...SPANS[span] }, signal }),
    5,
  );
  const figures = series.data?.figures ?? {};
  const oldest = figures["oldest_pending_seconds"] ?? [];
  return (
    <section class="replay" aria-label="Lag and replay">
      <div class="replay-head">
        <Choice label="lag, the last" value={span} options={SPAN_NAMES} onChange={setSpan} />
        <button
          type="button"
          class="quiet"
          aria-expanded={range !== null}
          onClick={() => setQuery(range ? NO_STRETCH : { ...lastMinutes(5) })}
        >
          replay a stretch …
        </button>
        <span class="quiet hint">or drag over the chart</span>
        <span class="oldest">
          oldest waiting {oldest.length > 0 ? duration(oldest.at(-1)) : "–"} <Arrow values={oldest.slice(-60)} />
        </span>
      </div>
      <Failure error={series.error} />
      {series.data && (
        <Chart
          label={`Backlog of ${group}`}
          times={series.data.timestamps}
          lines={[
            { label: "waiting", colour: "--ready", fill: true, values: figures["backlog"] ?? [] },
            { label: "leased", colour: "--leased", values: figures["leased"] ?? [] },
          ]}
          height={130}
          range={range}
          onBrush={(from, to) => setQuery({ ...rounded({ from, to }) })}
        />
      )}
      {range && (
        <Again
          {...where}
          names={names}
          stretch={range}
          onDone={() => {
            setQuery(NO_STRETCH);
            reload();
          }}
        />
      )}
    </section>
  );
}

/** Delivers a stretch again, after it was said how many messages that is. */
function Again(props: {
  namespace: string;
  topic: string;
  group: string;
  names: string[];
  stretch: Stretch;
  onDone: () => void;
}): JSX.Element {
  const { namespace, topic, group, names, stretch } = props;
  const path = ["topics", topic, "groups", group, "seek"];
  const body = { time: stretch.from, to_time: stretch.to };
  const preview = useData(isForward(stretch) ? JSON.stringify([path, body]) : null, (signal) =>
    call<SeekPreview>(path, { query: { namespace }, body: { ...body, dry_run: true }, signal }),
  );
  const found = preview.data;
  const same = (
    <Elsewhere
      curl={curl("POST", path, { namespace }, JSON.stringify(body))}
      python={python(`queue.seek(${text(topic)}, ${text(group)}, time=${body.time}, to_time=${body.to_time})`, namespace)}
    />
  );
  const replay = async (): Promise<void> => {
    if (found === null) return;
    const what = plural(found.messages, "message");
    const told = `${what} published from ${moment(body.time)} to ${moment(body.to_time)} will be delivered again to the group ${group} of ${topic}.${
      found.leased > 0 ? ` ${plural(found.leased, "message")} in flight will be delivered again.` : ""
    }`;
    if (!(await ask({ title: `Replay ${what} for ${group}?`, told, verb: `Replay ${count(found.messages)}`, isDangerous: false, same }))) return;
    await call(path, { query: { namespace }, body });
    toast(`${what} will be delivered again to ${group}`);
    props.onDone();
  };
  return (
    <div class="panel">
      <div class="row">
        <StretchFields stretch={stretch} onChange={(chosen) => setQuery({ ...chosen })} />
        <Choice label="for" value={group} options={names} onChange={(value) => setQuery({ group: value })} />
        <Action kind="primary" disabled={found === null || found.messages === 0} onClick={replay}>
          {found === null ? "Replay" : `Replay ${count(found.messages)} for ${group}`}
        </Action>
      </div>
      <Failure error={preview.error} />
      {same}
    </div>
  );
}
