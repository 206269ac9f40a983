/** A stretch of time: in the address, and as two fields. */

import type { JSX } from "preact";
import { now } from "./clock";

export interface Stretch {
  from: number;
  to: number;
}

/** For an address that names none. */
export const NO_STRETCH = { from: null, to: null };

/** What a datetime-local input takes and gives: local time, to the second. */
export function toInput(seconds: number): string {
  const at = new Date(seconds * 1000);
  if (Number.isNaN(at.getTime())) return "";
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

export function fromInput(value: string): number {
  return new Date(value).getTime() / 1000;
}

const TIME_MAX = 8e12; // beyond that, a browser has no dates

/** The one that an address names, if it names one. It may end before it begins, while somebody types. */
export function stretchOf(query: Record<string, string>, prefix = ""): Stretch | null {
  const [from, to] = [Number(query[`${prefix}from`] ?? NaN), Number(query[`${prefix}to`] ?? NaN)];
  const isTime = (at: number): boolean => at >= 0 && at < TIME_MAX;
  return isTime(from) && isTime(to) ? { from, to } : null;
}

export function isForward(stretch: Stretch | null): stretch is Stretch {
  return stretch !== null && stretch.from < stretch.to;
}

export function lastMinutes(minutes: number): Stretch {
  return rounded({ from: now() - 60 * minutes, to: now() });
}

/** Whole seconds that hold all of it. */
export function rounded({ from, to }: Stretch): Stretch {
  return { from: Math.floor(from), to: Math.ceil(to) };
}

export function StretchFields({ stretch, onChange }: { stretch: Stretch; onChange: (stretch: Stretch) => void }): JSX.Element {
  const field = (name: keyof Stretch): JSX.Element => (
    <label class="field">
      <span>{name}</span>
      <input
        type="datetime-local"
        step="1"
        value={toInput(stretch[name])}
        onInput={(event) => {
          const typed = fromInput(event.currentTarget.value);
          if (!Number.isNaN(typed)) onChange({ ...stretch, [name]: typed });
        }}
      />
    </label>
  );
  return (
    <>
      {field("from")}
      {field("to")}
      {!isForward(stretch) && <p class="failure">the stretch ends before it begins</p>}
    </>
  );
}
