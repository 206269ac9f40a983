/** One mark for each state, everywhere: a glyph, a colour and a word. */

import type { JSX } from "preact";
import { count, moment, short, utc } from "./format";
import type { State } from "./types";

export const STATES: readonly State[] = ["ready", "leased", "delayed", "blocked", "done", "dead"];

export const GLYPHS: Record<State, string> = {
  ready: "●",
  leased: "◐",
  delayed: "◷",
  blocked: "▣",
  done: "○",
  dead: "✕",
};

export function Mark({ state }: { state: State }): JSX.Element {
  return (
    <span class={`mark s-${state}`} title={state}>
      <span aria-hidden="true">{GLYPHS[state]}</span>
      <span class="sr">{state}</span>
    </span>
  );
}

/** A mark with how many; what is zero stays in its place, and recedes. */
export function Tally({ state, value, exact = false }: { state: State; value: number; exact?: boolean }): JSX.Element {
  return (
    <span class={value === 0 ? "tally zero" : "tally"} title={`${count(value)} ${state}`}>
      <Mark state={state} />
      <span class="num">{exact ? count(value) : short(value)}</span>
    </span>
  );
}

export function StateName({ state }: { state: State }): JSX.Element {
  return (
    <span class={`state s-${state}`}>
      <span aria-hidden="true">{GLYPHS[state]}</span> {state}
    </span>
  );
}

export function Time({ at }: { at: number | null | undefined }): JSX.Element {
  if (at === null || at === undefined) return <span>–</span>;
  return (
    <time dateTime={new Date(at * 1000).toISOString()} title={utc(at)}>
      {moment(at)}
    </time>
  );
}

export function Legend({ states = STATES }: { states?: readonly State[] }): JSX.Element {
  return (
    <ul class="legend" aria-label="States">
      {states.map((state) => (
        <li key={state}>
          <StateName state={state} />
        </li>
      ))}
    </ul>
  );
}

const USUAL_PRIORITY = 5;

/** Only where it is not the usual one; the lowest number is served first. */
export function Priority({ value }: { value: number }): JSX.Element | null {
  if (value === USUAL_PRIORITY) return null;
  return (
    <span class="priority" title={`priority ${value}`}>
      <span aria-hidden="true">
        {value < USUAL_PRIORITY ? "↑" : "↓"}
        {value}
      </span>
      <span class="sr">priority {value}</span>
    </span>
  );
}
