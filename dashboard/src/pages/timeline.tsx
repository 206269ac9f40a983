/** What happened to a message, a line for each group, from left to right; and the same as a list. */

import type { JSX } from "preact";
import { now } from "../clock";
import { count, plural, span } from "../format";
import { GLYPHS, Time } from "../marks";
import type { State, Trace, TraceEvent } from "../types";

const STATE_AFTER: Record<string, State> = {
  published: "ready",
  due: "ready",
  delivered: "leased",
  redelivered: "leased",
  nacked: "delayed",
  "lease expired": "ready",
  released: "ready",
  acknowledged: "done",
  "dead-lettered": "dead",
  dropped: "dead",
  redriven: "ready",
  "retried now": "ready",
};

export interface Leg {
  state: State;
  from: number;
  to: number;
}

/**
 * The stretches of time that a message spent in each state, as far as its events tell. No event tells that it waits behind another:
 * the last stretch is as its state is now.
 */
export function legs(events: TraceEvent[], group: string, now: number, current?: State): Leg[] {
  const own = events.filter((event) => (event.group === undefined || event.group === group) && event.time <= now);
  const found: Leg[] = [];
  for (const event of own) {
    const state = STATE_AFTER[event.what];
    if (state === undefined) continue;
    const last = found.at(-1);
    if (last) last.to = event.time;
    const isDelayed = event.what === "published" && event.until !== undefined && event.until > event.time;
    found.push({ state: isDelayed ? "delayed" : state, from: event.time, to: now });
  }
  const end = found.at(-1);
  if (end && (end.state === "done" || end.state === "dead")) end.to = end.from;
  else if (end?.state === "ready" && (current === "blocked" || current === "delayed")) end.state = current;
  return found;
}

export function Timeline({ trace, states }: { trace: Trace; states: Record<string, State> }): JSX.Element {
  const time = now();
  const groups = [...new Set([...Object.keys(states), ...trace.events.flatMap((event) => event.group ?? [])])];
  const lines = groups.map((group) => ({ group, legs: legs(trace.events, group, time, states[group]) }));
  const all = lines.flatMap((line) => line.legs);
  const first = Math.min(...all.map((leg) => leg.from));
  const last = Math.max(...all.map((leg) => leg.to), first + 0.001);
  // Short stretches matter as much as long ones, so that time is drawn by its logarithm from the first event on.
  const place = (at: number): string => `${(1 + (98 * Math.log1p((at - first) * 20)) / Math.log1p((last - first) * 20)).toFixed(2)}%`;
  return (
    <section aria-labelledby="timeline">
      <h2 id="timeline">Timeline</h2>
      <div class="timelines">
        {lines.map(({ group, legs: some }) => (
          <div key={group} class="timeline">
            <span class="timeline-name">{group}</span>
            <svg role="img" aria-label={some.map((leg) => `${leg.state} for ${span(leg.to - leg.from)}`).join(", ")}>
              {some.map((leg) => (
                <line key={`l${leg.from}${leg.state}`} class={`l-${leg.state}`} x1={place(leg.from)} x2={place(leg.to)} y1="11" y2="11" />
              ))}
              {some.map((leg) => (
                <text key={`t${leg.from}${leg.state}`} class={`f-${leg.state}`} x={place(leg.from)} y="16" text-anchor="middle">
                  {GLYPHS[leg.state]}
                </text>
              ))}
            </svg>
            <span class="quiet">
              {plural(Math.max(0, some.filter((leg) => leg.state === "leased").length), "delivery", "deliveries")},{" "}
              {span((some.at(-1)?.to ?? first) - first)}
            </span>
          </div>
        ))}
      </div>
      <details open={trace.events.length <= 12}>
        <summary>{plural(trace.events.length, "event")}</summary>
        {trace.omitted > 0 && <p class="quiet">{count(trace.omitted)} older ones are left out</p>}
        <ol class="events">
          {trace.events.map((event, at) => (
            <li key={at}>
              <Time at={event.time} />
              <strong>{event.what}</strong>
              <span>
                {[
                  event.group,
                  event.consumer && `to ${event.consumer}`,
                  event.attempt !== undefined && `attempt ${event.attempt}`,
                  event.publisher && `by ${event.publisher}`,
                  event.reason,
                  event.error,
                ]
                  .filter(Boolean)
                  .join(" · ")}
                {event.until !== undefined && (
                  <>
                    {" "}
                    until <Time at={event.until} />
                  </>
                )}
              </span>
            </li>
          ))}
        </ol>
      </details>
    </section>
  );
}
