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
import type { SeekPreview, Series } from "../types";
import type { TabProps } from "./topic";

const SPANS = {
  "5 minutes": { resolution: "second", count: 300 },
  "3 hours": { resolution: "minute", count: 180 },
  "24 hours": { resolution: "minute", count: 1440 },
} as const;
type SpanName = keyof typeof SPANS;

interface Range {
  from: number;
  to: number;
}

export function Replay({ topic, reload }: TabProps): JSX.Element {
  const names = topic.groups.map((group) => group.name);
  const { query } = place.value;
  const group = names.includes(query["group"] ?? "") ? (query["group"] ?? "") : (names[0] ?? "");
  const [span, setSpan] = useState<SpanName>("5 minutes");
  const [range, setRange] = useState<Range | null>(null);
  const [isOpen, setOpen] = useState(false);
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
        <Choice label="lag, the last" value={span} options={Object.keys(SPANS) as SpanName[]} onChange={setSpan} />
        <button type="button" class="quiet" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
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
          onBrush={(from, to) => {
            setRange({ from, to });
            setOpen(true);
          }}
        />
      )}
      {isOpen && (
        <Stretch
          key={`${range?.from ?? 0} ${range?.to ?? 0}`}
          {...where}
          names={names}
          range={range ?? { from: Date.now() / 1000 - 300, to: Date.now() / 1000 }}
          onDone={() => {
            setOpen(false);
            setRange(null);
            reload();
          }}
        />
      )}
    </section>
  );
}

/** What a datetime-local input takes and gives: local time, to the second. */
export function toInput(seconds: number): string {
  const at = new Date(seconds * 1000);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

export function fromInput(value: string): number {
  return new Date(value).getTime() / 1000;
}

function Stretch(props: {
  namespace: string;
  topic: string;
  group: string;
  names: string[];
  range: Range;
  onDone: () => void;
}): JSX.Element {
  const { namespace, topic, group, names } = props;
  const [from, setFrom] = useState(toInput(Math.floor(props.range.from)));
  const [to, setTo] = useState(toInput(Math.ceil(props.range.to)));
  const path = ["topics", topic, "groups", group, "seek"];
  const body = { time: fromInput(from), to_time: fromInput(to) };
  const isGood = body.to_time > body.time;
  const preview = useData(isGood ? JSON.stringify([path, body]) : null, (signal) =>
    call<SeekPreview>(path, { query: { namespace }, body: { ...body, dry_run: true }, signal }),
  );
  const found = preview.data;
  const replay = async (): Promise<void> => {
    if (found === null) return;
    const what = plural(found.messages, "message");
    const told = (
      <p>
        {what} published from {moment(body.time)} to {moment(body.to_time)} will be delivered again to the group {group} of{" "}
        {topic}.{found.leased > 0 && ` ${plural(found.leased, "message")} being worked on will be delivered once more.`}
      </p>
    );
    if (!(await ask(`Replay ${what} for ${group}?`, told, `Replay ${count(found.messages)}`, false))) return;
    await call(path, { query: { namespace }, body });
    toast(`${what} will be delivered again to ${group}`);
    props.onDone();
  };
  return (
    <div class="panel">
      <div class="row">
        <label class="field">
          <span>from</span>
          <input type="datetime-local" step="1" value={from} onInput={(event) => setFrom(event.currentTarget.value)} />
        </label>
        <label class="field">
          <span>to</span>
          <input type="datetime-local" step="1" value={to} onInput={(event) => setTo(event.currentTarget.value)} />
        </label>
        <Choice label="for" value={group} options={names} onChange={(value) => setQuery({ group: value })} />
        <Action kind="primary" disabled={found === null || found.messages === 0} onClick={replay}>
          {found === null ? "Replay" : `Replay ${count(found.messages)} for ${group}`}
        </Action>
      </div>
      {!isGood && <p class="failure">the stretch ends before it begins</p>}
      <Failure error={preview.error} />
      <Elsewhere
        curl={curl("POST", path, { namespace }, JSON.stringify(body))}
        python={python(`queue.seek(${text(topic)}, ${text(group)}, time=${body.time}, to_time=${body.to_time})`, namespace)}
      />
    </div>
  );
}
