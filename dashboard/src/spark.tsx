/** A small line that shows where a figure comes from: time runs from left to right, the bottom is zero. */

import type { JSX } from "preact";

export function points(values: number[], width: number, height: number): string {
  if (values.length < 2) return "";
  const top = Math.max(...values, 1e-9);
  const step = width / (values.length - 1);
  return values
    .map((value, at) => `${(at * step).toFixed(1)},${(height - 1 - (Math.max(0, value) / top) * (height - 2)).toFixed(1)}`)
    .join(" ");
}

export function Spark({ values, width = 72, height = 18 }: { values: number[]; width?: number; height?: number }): JSX.Element {
  const line = points(values, width, height);
  return (
    <svg class="spark" width={width} height={height} viewBox={`0 0 ${width} ${height}`} aria-hidden="true">
      {line && <polygon points={`0,${height} ${line} ${width},${height}`} />}
      {line && <polyline points={line} />}
    </svg>
  );
}

/** Whether a figure went up of late: the last third against the first, and by more than noise. */
export function trend(values: number[]): "up" | "down" | "flat" {
  if (values.length < 6) return "flat";
  const third = Math.floor(values.length / 3);
  const mean = (some: number[]): number => some.reduce((sum, value) => sum + value, 0) / some.length;
  const before = mean(values.slice(0, third));
  const after = mean(values.slice(-third));
  if (after > before * 1.1 + 1) return "up";
  return after < before * 0.9 - 1 ? "down" : "flat";
}

export function Arrow({ values }: { values: number[] }): JSX.Element {
  const way = trend(values);
  const [glyph, word] = { up: ["▲", "rising"], down: ["▼", "falling"], flat: ["", ""] }[way] as [string, string];
  return (
    <span class={`arrow ${way}`} title={word || undefined}>
      <span aria-hidden="true">{glyph}</span>
      <span class="sr">{word}</span>
    </span>
  );
}
