/** What time it is on the server. Its times are compared with that: the clock of this machine may be wrong. */

import { signal } from "@preact/signals";

const WORTH_SECONDS = 5; // what an answer takes on its way, and the whole seconds in which its time is told, are no difference

/** By how many seconds the server's clock is ahead of this one. */
export const ahead = signal(0);

export function hearTime(date: string | null, here = Date.now() / 1000): void {
  const there = date === null ? NaN : Date.parse(date) / 1000;
  if (Number.isNaN(there)) return;
  const found = Math.abs(there - here) < WORTH_SECONDS ? 0 : Math.round(there - here);
  if (Math.abs(found - ahead.value) > 1) ahead.value = found;
}

export function now(): number {
  return Date.now() / 1000 + ahead.value;
}
