/** How long deliveries and acks took of late. */

import type { JSX } from "preact";
import { millis, plural } from "./format";
import type { Latency } from "./types";

export function told(what: string, latency: Latency): string {
  const { count, p50_ms, p95_ms, p99_ms } = latency;
  return `${what}: p50 ${millis(p50_ms)}, p95 ${millis(p95_ms)}, p99 ${millis(p99_ms)}; ${plural(count, "measurement")} of the last two minutes`;
}

/** All three. */
export function Percentiles({ what, latency }: { what: string; latency: Latency | null | undefined }): JSX.Element {
  if (!latency)
    return (
      <span>
        {what} <strong>–</strong>
      </span>
    );
  return (
    <span title={told(what, latency)}>
      {what} p50 <strong>{millis(latency.p50_ms)}</strong> · p95 <strong>{millis(latency.p95_ms)}</strong> · p99{" "}
      <strong>{millis(latency.p99_ms)}</strong>
    </span>
  );
}

/** One figure for a table; the others when somebody points at it. */
export function P95({ what, latency }: { what: string; latency: Latency | null | undefined }): JSX.Element {
  return latency ? <span title={told(what, latency)}>{millis(latency.p95_ms)}</span> : <span class="quiet">–</span>;
}
