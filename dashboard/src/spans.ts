/** How far back charts of what the server samples look. */

export const SPANS = {
  "5 minutes": { resolution: "second", count: 300 },
  "3 hours": { resolution: "minute", count: 180 },
  "24 hours": { resolution: "minute", count: 1440 },
} as const;
export type SpanName = keyof typeof SPANS;
export const SPAN_NAMES = Object.keys(SPANS) as SpanName[];
