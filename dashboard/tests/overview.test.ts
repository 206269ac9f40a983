import { describe, expect, it } from "vitest";
import { millis } from "../src/format";
import { told } from "../src/latency";
import { changed, NOTHING, whole } from "../src/overview";
import { flowLines } from "../src/pages/flow";
import { ranked } from "../src/pages/overview";
import type { OverviewAnswer, TopicRow } from "../src/types";

function row(name: string, depth = 0, namespace = "default"): TopicRow {
  return {
    namespace, name, depth, priority: 5, in: 0, out: 0, acked: 0, failed: 0, leased: 0, delayed: 0, dead: 0, oldest_seconds: 0, groups: 0, trend: [],
    delivery_latency: null, ack_latency: null, is_dlq: false,
  };
}

const first = { timestamp: 1, totals: {}, topics: [row("a", 1), row("b", 2)], matching: 2, needs: [] } as unknown as OverviewAnswer;

describe("an overview", () => {
  it("changes the rows that changed, and leaves the others", () => {
    const next = changed(whole(first), { timestamp: 2, topics: [row("b", 9)] });
    expect(next.rows.map((each) => each.depth)).toEqual([1, 9]);
    expect(next.timestamp).toBe(2);
  });

  it("takes a new order, with rows that come and go", () => {
    const next = changed(whole(first), { timestamp: 2, topics: [row("c", 3)], order: [["default", "c"], ["default", "a"]] });
    expect(next.rows.map((each) => each.name)).toEqual(["c", "a"]);
  });

  it("tells topics of two namespaces apart", () => {
    const both = whole({ ...first, topics: [row("a", 1), row("a", 2, "shop")] });
    expect(changed(both, { timestamp: 2, topics: [row("a", 7, "shop")] }).rows.map((each) => each.depth)).toEqual([1, 7]);
  });

  it("keeps the memory that was told last", () => {
    const memory = { resident_bytes: 7, requests_bytes: 0, requests_bytes_max: 0, parked_bytes: 0 };
    const later = changed({ ...NOTHING, memory }, { timestamp: 3 });
    expect([later.memory, changed(later, { timestamp: 4, memory: { ...memory, resident_bytes: 8 } }).memory?.resident_bytes]).toEqual([memory, 8]);
  });

  it("keeps what a change does not name", () => {
    const kept = changed({ ...NOTHING, matching: 4, needs: [] }, { timestamp: 3 });
    expect([kept.matching, kept.timestamp]).toEqual([4, 3]);
  });
});

it("ranks neither topics for dead letters nor those that have nothing", () => {
  const rows = [{ ...row("a.dlq", 9), is_dlq: true }, row("b", 3), row("c")];
  expect(ranked(rows, (each) => each.depth).map((each) => each.name)).toEqual(["b"]);
});

it("tells latencies as people read them", () => {
  expect([0, 5, 700, 1500, 15_000, 150_000].map(millis)).toEqual(["<1ms", "5ms", "700ms", "1.5s", "15s", "2m 30s"]);
  expect(told("acked", { count: 1, p50_ms: 1, p95_ms: 20, p99_ms: 3000 })).toContain("p95 20ms, p99 3s; 1 measurement");
});

it("stacks the flow so that its top is all that came in", () => {
  const lines = flowLines({
    resolution: "second", timestamps: [1, 2], topics: 1, left_out: 0,
    figures: { acked: [1, 2], dead_lettered: [0, 1], leased: [2, 1], delayed: [1, 1], depth: [10, 8] },
  });
  expect(lines.map((line) => line.label)).toEqual(["delayed", "ready", "leased", "done"]);
  expect(lines.map((line) => line.values)).toEqual([[11, 12], [10, 11], [3, 5], [1, 4]]);
});
