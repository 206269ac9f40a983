/** Numbers, spans and times as people read them. Times are local; UTC is shown on hover. */

import { now as serverNow } from "./clock";

const GROUPED = new Intl.NumberFormat("en-US");

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : GROUPED.format(Math.round(value));
}

/** Short, for lists: 12.4k. */
export function short(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size < 10 && !Number.isInteger(value)) return value.toFixed(1);
  if (size < 10_000) return GROUPED.format(Math.round(value));
  for (const [unit, letter] of [
    [1e15, "P"],
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ] as const) {
    if (size >= unit) {
      const scaled = value / unit;
      return `${scaled >= 100 ? Math.round(scaled) : scaled.toFixed(1)}${letter}`;
    }
  }
  return String(value);
}

export function rate(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : `${short(value)}/s`;
}

export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  let scaled = value;
  while (scaled >= 1024 && at < units.length - 1) {
    scaled /= 1024;
    at += 1;
  }
  return `${at === 0 || scaled >= 100 ? Math.round(scaled) : scaled.toFixed(1)} ${units[at] ?? ""}`;
}

const SPANS = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "m"],
  [1, "s"],
] as const;

/** 4m 10s; at most two units. */
export function span(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0) return `−${span(-seconds)}`;
  if (seconds === 0) return "0s";
  if (seconds < 1) return `${Math.round(seconds * 1000)}ms`;
  for (const [at, [size, letter]] of SPANS.entries()) {
    if (seconds < size) continue;
    const whole = Math.floor(seconds / size);
    const next = SPANS[at + 1];
    const rest = next ? Math.floor((seconds - whole * size) / next[0]) : 0;
    return next && rest && whole < 10 ? `${whole}${letter} ${rest}${next[1]}` : `${whole}${letter}`;
  }
  return "0s";
}

/** Milliseconds, where a whole minute needs no seconds. */
export function millis(value: number): string {
  return value === 0 ? "<1ms" : value < 1000 ? `${value}ms` : value < 10_000 ? `${value / 1000}s` : span(value / 1000);
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}

export function clock(seconds: number, withMillis = false): string {
  const at = new Date(seconds * 1000);
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return withMillis ? `${time}.${String(at.getMilliseconds()).padStart(3, "0")}` : time;
}

export function day(seconds: number): string {
  const at = new Date(seconds * 1000);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

/** The time of day for today, with the date for other days. */
export function moment(seconds: number | null | undefined, now = serverNow()): string {
  if (seconds === null || seconds === undefined) return "–";
  return day(seconds) === day(now) ? clock(seconds) : `${day(seconds)} ${clock(seconds)}`;
}

export function utc(seconds: number): string {
  return `${new Date(seconds * 1000).toISOString().replace("T", " ").replace("Z", "")} UTC`;
}

export function ago(seconds: number | null | undefined, now = serverNow()): string {
  if (seconds === null || seconds === undefined) return "–";
  return seconds <= now ? `${span(now - seconds)} ago` : `in ${span(seconds - now)}`;
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

const TURNS = /[\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/g;

/** Marks that turn the direction of writing are shown instead of obeyed: a name must not rearrange the question that it is part of. */
export function visible(text: string): string {
  return text.replaceAll(TURNS, (mark) => `⟨U+${mark.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}
