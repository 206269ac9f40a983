/** The log of each partition from old to new, coloured by the state that messages have in a group. */

import type { JSX } from "preact";
import { call } from "../api";
import { useData } from "../data";
import { count } from "../format";
import { STATES } from "../marks";
import { Choice, Failure } from "../parts";
import { place, setQuery } from "../router";
import type { State, Strip, StripPartition, TopicView } from "../types";

const WIDTH = 120;
const SHORT = 4;
const KINDS = [...STATES, "gone"] as const;
type Kind = State | "gone";

export interface Piece {
  kind: Kind;
  x: number;
  width: number;
  y: number;
  height: number;
}

/** Rectangles of a strip that is 1 high, with offsets from left to right. Neighbours that are all of one state become one. */
export function pieces(partition: StripPartition): Piece[] {
  const wide = Math.max(1, partition.width);
  const length = Math.max(...KINDS.map((kind) => partition[kind]?.length ?? 0));
  const found: Piece[] = [];
  for (let bucket = 0; bucket < length; bucket += 1) {
    const x = bucket * wide;
    const width = Math.min(wide, partition.end - partition.start - x);
    const counts = KINDS.map((kind) => partition[kind]?.[bucket] ?? 0);
    const sum = counts.reduce((total, value) => total + value, 0);
    let y = 0;
    for (const [at, kind] of KINDS.entries()) {
      const value = counts[at] ?? 0;
      if (value === 0 || sum === 0) continue;
      const height = value / sum;
      const last = found.at(-1);
      if (height === 1 && last?.kind === kind && last.height === 1 && last.x + last.width === x) last.width += width;
      else found.push({ kind, x, width, y, height });
      y += height;
    }
  }
  return found;
}

export function describe(partition: StripPartition): string {
  const told = KINDS.map((kind) => {
    const sum = (partition[kind] ?? []).reduce((total, value) => total + value, 0);
    return sum > 0 ? `${count(sum)} ${kind}` : "";
  }).filter(Boolean);
  return `partition ${partition.partition}, offsets ${count(partition.start)} to ${count(partition.end)}: ${told.join(", ") || "empty"}`;
}

export function Strips({ topic, isShort }: { topic: TopicView; isShort: boolean }): JSX.Element | null {
  const names = topic.groups.map((group) => group.name);
  const wanted = place.value.query["group"] ?? "";
  const group = names.includes(wanted) ? wanted : (names[0] ?? null);
  const strip = useData(
    `strip\n${topic.namespace}\n${topic.name}\n${group ?? ""}`,
    (signal) =>
      call<Strip>(["topics", topic.name, "strip"], { query: { namespace: topic.namespace, group, width: WIDTH }, signal }),
    3,
  );
  const all = strip.data?.partitions ?? [];
  const shown = isShort ? all.slice(0, SHORT) : all;
  const longest = Math.max(1, ...all.map((partition) => partition.end - partition.start));
  return (
    <section class="strips" aria-label="Partitions, from the oldest message to the newest">
      {names.length > 0 && (
        <Choice label="as seen by" value={group ?? ""} options={names} onChange={(value) => setQuery({ group: value })} />
      )}
      <Failure error={strip.error} />
      {shown.map((partition) => (
        <div key={partition.partition} class="strip">
          <span class="strip-name" aria-hidden="true">
            p{partition.partition}
          </span>
          <svg viewBox={`0 0 ${longest} 1`} preserveAspectRatio="none" role="img" aria-label={describe(partition)}>
            <title>{describe(partition)}</title>
            {pieces(partition).map((piece) => (
              <rect
                key={`${piece.x} ${piece.kind}`}
                class={`f-${piece.kind}`}
                x={piece.x}
                y={piece.y}
                width={piece.width}
                height={piece.height}
              />
            ))}
          </svg>
          <span class="strip-end num quiet">{count(partition.end - partition.start)}</span>
        </div>
      ))}
      {shown.length < all.length && <p class="quiet">{count(all.length - shown.length)} more under partitions</p>}
    </section>
  );
}
