import { describe, expect, it } from "vitest";
import { call, isLockedOut, me, may } from "../src/api";
import { ahead, hearTime } from "../src/clock";
import { visible } from "../src/format";
import { href, parse } from "../src/router";
import { fromInput, stretchOf, toInput } from "../src/stretch";
import { points, trend } from "../src/spark";
import { curl, literal, python } from "../src/snippets";
import { howMany } from "../src/pages/dead";
import { calendar, heat } from "../src/pages/delayed";
import { within } from "../src/pages/flow";
import { hourly } from "../src/pages/history";
import { worstFirst } from "../src/pages/pipelines";
import { bodyOf, parseHeaders, pythonOf, type Draft } from "../src/pages/publish";
import { describe as told, pieces } from "../src/pages/strips";
import { grown } from "../src/pages/tail";
import { legs } from "../src/pages/timeline";
import { parseFilter } from "../src/topic-filter";
import { read } from "../src/pages/topic-settings";
import { visible as inSight } from "../src/virtual";
import type { ErrorKinds, MessageView, Pipeline, Report, Series, TopicRow } from "../src/types";

const DRAFT: Draft = { topic: "t", namespace: "default", kind: "JSON", value: "1.0", key: "", headers: "", delay: "", priority: "", dedup: "" };

describe("an address", () => {
  it("comes back as it was, whatever the names hold", () => {
    const path = ["topic", "a/b", "ä?#%"];
    expect(parse(href(path, { filter: "key:ann & value.a>1", empty: "" }))).toEqual({ path, query: { filter: "key:ann & value.a>1" } });
  });

  it("that somebody broke is still a place", () => {
    expect(parse("#/topic/%E0%A4%A").path).toEqual(["topic", "%E0%A4%A"]);
  });
});

describe("a list", () => {
  it("draws what is in sight, and a little more", () => {
    expect(inSight(0, 300, 30, 1000)).toEqual({ start: 0, end: 18 });
    expect(inSight(15_000, 300, 30, 1000)).toEqual({ start: 492, end: 518 });
    expect(inSight(0, 300, 30, 3)).toEqual({ start: 0, end: 3 });
  });

  it("is filtered by namespace and text", () => {
    expect(parseFilter(" ns:shop  orders ")).toEqual({ namespace: "shop", match: "orders", column: null });
    expect(parseFilter("")).toEqual({ column: null });
  });

  it("is filtered by figures, all of which must hold", () => {
    const row = (more: Partial<TopicRow>): TopicRow => ({ name: "orders.eu", oldest_seconds: 0, dead: 0, depth: 0, ...more }) as TopicRow;
    const filter = parseFilter("orders eu lag>1m has:dead backlog<=2k");
    expect([filter.match, filter.column, filter.wrong]).toEqual(["orders", "oldest", undefined]);
    const good = { oldest_seconds: 61, dead: 1, depth: 2000 };
    const found = [good, { ...good, oldest_seconds: 60 }, { ...good, dead: 0 }, { ...good, depth: 2001 }, { ...good, name: "orders.us" }];
    expect(found.map((more) => filter.holds?.(row(more)))).toEqual([true, false, false, false, false]);
  });

  it("does not look at fewer topics than could match", () => {
    expect([parseFilter("dead>=0").column, parseFilter("dead<3").column, parseFilter("dead>0").column, parseFilter("in=0").column]).toEqual([null, null, "dead", null]);
  });

  it("says what a filter can be", () => {
    for (const wrong of ["lag>soon", "has:everything", "has:__proto__", "constructor>1", "lag>1x"]) expect(parseFilter(wrong).wrong).toBeTruthy();
  });
});

describe("a strip", () => {
  it("has one piece for neighbours of one state, and shares of mixed ones", () => {
    const found = pieces({ partition: 0, start: 0, end: 6, width: 2, done: [2, 2, 0], ready: [0, 0, 1], dead: [0, 0, 1] });
    expect(found.map(({ kind, x, width, height }) => [kind, x, width, height])).toEqual([["done", 0, 4, 1], ["ready", 4, 2, 0.5], ["dead", 4, 2, 0.5]]);
  });

  it("says what it shows", () => {
    expect(told({ partition: 1, start: 0, end: 3, width: 1, done: [1, 1, 0], leased: [0, 0, 1] })).toBe("partition 1, offsets 0 to 3: 1 leased, 2 done");
  });
});

describe("a timeline", () => {
  it("goes from state to state, for each group its own", () => {
    const events = [
      { time: 1, what: "published" },
      { time: 2, what: "delivered", group: "a" },
      { time: 3, what: "nacked", group: "a" },
      { time: 4, what: "delivered", group: "b" },
      { time: 5, what: "redelivered", group: "a" },
      { time: 6, what: "acknowledged", group: "a" },
      { time: 99, what: "expires" },
    ];
    expect(legs(events, "a", 10).map((leg) => [leg.state, leg.from, leg.to])).toEqual([
      ["ready", 1, 2], ["leased", 2, 3], ["delayed", 3, 5], ["leased", 5, 6], ["done", 6, 6],
    ]);
    expect(legs(events, "b", 10).at(-1)).toEqual({ state: "leased", from: 4, to: 10 });
    expect(legs(events.slice(0, 1), "b", 10, "blocked").at(-1)?.state).toBe("blocked");
  });
});

describe("what is published", () => {
  it("keeps its value as it was typed", () => {
    expect(bodyOf({ ...DRAFT, key: "ann", headers: "a: b:c\n\nbad" })).toEqual({ body: '{"messages":[{"value":1.0,"key":"ann","headers":{"a":"b:c"}}]}' });
    expect(bodyOf({ ...DRAFT, kind: "text", value: "é" })).toEqual({ body: '{"messages":[{"value_base64":"w6k="}]}' });
  });

  it("is refused with a reason before it is sent", () => {
    for (const wrong of [{ topic: "" }, { value: "{" }, { delay: "soon" }, { kind: "base64", value: "?" }] as Partial<Draft>[]) {
      expect(bodyOf({ ...DRAFT, ...wrong })).toHaveProperty("wrong");
    }
  });

  it("is the same in Python", () => {
    expect(pythonOf({ ...DRAFT, value: '{"a": [true, null]}', namespace: "shop" })).toContain('queue.publish("t", {"a": [True, None]})');
    expect(pythonOf({ ...DRAFT, namespace: "shop" })).toContain('namespace="shop"');
    expect(parseHeaders("no colon")).toEqual({});
    expect(literal({ "a'b": [1.5, false] })).toBe(`{"a'b": [1.5, False]}`);
  });

  it("is quoted for a shell", () => {
    expect(curl("POST", ["topics", "it's"], { namespace: "default" }, `{"a":"it's"}`)).toContain(`'{"a":"it'\\''s"}'`);
    expect(curl("DELETE", ["messages", "1.0.0"])).toMatch(/^curl -X DELETE '.*v1\/messages\/1\.0\.0'$/);
  });
});

describe("small pictures", () => {
  it("begin at zero", () => {
    expect(points([0, 5, 10], 10, 12)).toBe("0.0,11.0 5.0,6.0 10.0,1.0");
    expect(points([1], 10, 12)).toBe("");
  });

  it("tell rising from noise", () => {
    expect([trend([1, 1, 1, 9, 9, 9]), trend([9, 9, 9, 1, 1, 1]), trend([100, 101, 99, 100, 101, 100]), trend([1, 9])]).toEqual(["up", "down", "flat", "flat"]);
  });

  it("show one message beside a thousand", () => {
    expect([heat(0, 1000), heat(1, 1000), heat(1000, 1000), heat(1, 1)]).toEqual([0, 1, 4, 4]);
  });
});

it("sums hours over topics and groups", () => {
  const rows = [{ hour: 7200, published: 3 }, { hour: 3600, published: 1, acknowledged: 5 }, { hour: 3600, published: null, acknowledged: 2 }];
  const found = hourly({ hourly: rows } as unknown as Report);
  expect(found.times).toEqual([3600, 7200]);
  expect(found.lines[0]?.values).toEqual([1, 3]);
  expect(found.lines[1]?.values[0]).toBe(7);
});

it("keeps the newest of a tail, and counts what it left out", () => {
  const message = (id: string): MessageView => ({ id }) as MessageView;
  const one = grown({ messages: [], dropped: 0, matched: 0 }, { messages: [message("1"), message("2")], dropped: 1, matched: 3 });
  const two = grown(one, { messages: Array.from({ length: 300 }, (_, at) => message(`n${at}`)), dropped: 2, matched: 300 });
  expect(one.messages.map((each) => each.id)).toEqual(["2", "1"]);
  expect([two.messages.length, two.messages[0]?.id, two.dropped, two.matched]).toEqual([200, "n299", 3, 303]);
});

it("reads settings as JSON, or as the words that they are", () => {
  expect([read("3"), read("true"), read("none"), read("partition"), read('{"a":"b"}')]).toEqual([3, true, null, "partition", { a: "b" }]);
});

it("takes local times there and back", () => {
  expect(fromInput(toInput(1_700_000_000))).toBe(1_700_000_000);
});

it("takes a stretch from an address, and nothing that is none", () => {
  expect(stretchOf({ from: "1", to: "2.5" })).toEqual({ from: 1, to: 2.5 });
  for (const wrong of [{}, { from: "1" }, { from: "x", to: "2" }, { from: "1", to: "1e99" }, { from: "-1", to: "2" }]) expect(stretchOf(wrong)).toBeNull();
});

it("puts hours on the days that clocks show, and keeps every message", () => {
  const midnight = new Date(2026, 2, 26).getTime() / 1000;
  const rows = [...calendar({ from: midnight, seconds: 3600, counts: Array.from({ length: 100 }, () => 2) }).values()];
  expect(rows.flat().reduce((sum, cell) => sum + (cell?.count ?? 0), 0)).toBe(200);
  expect(rows[0]?.[3]).toEqual({ from: midnight + 3 * 3600, to: midnight + 4 * 3600, count: 2 });
});

it("shows marks that turn the direction of writing", () => {
  expect(visible("Delete \u202Egpj.exe?")).toBe("Delete ⟨U+202E⟩gpj.exe?");
});

describe("the time", () => {
  it("is that of the server", () => {
    hearTime("Thu, 01 Jan 1970 01:00:00 GMT", 0);
    expect(ahead.value).toBe(3600);
    hearTime("nonsense", 0);
    expect(ahead.value).toBe(3600);
    hearTime("Thu, 01 Jan 1970 00:00:03 GMT", 0);
    expect(ahead.value).toBe(0);
  });
});

it("asks for nothing whose name a browser would take for a step", async () => {
  for (const name of ["", ".", ".."]) await expect(call(["topics", "orders", "groups", name], { method: "DELETE" })).rejects.toThrow("command line");
  expect(curl("DELETE", ["topics", ".."])).toContain("--path-as-is");
});

it("puts jobs first that need somebody", () => {
  const job = (state: string, reported: number): Pipeline => ({ state, reported }) as Pipeline;
  const jobs = [job("done", 9), job("running", 3), job("failed", 1), job("running", 4)];
  expect(jobs.sort(worstFirst).map((each) => [each.state, each.reported])).toEqual([["failed", 1], ["running", 4], ["running", 3], ["done", 9]]);
});

it("counts what happened in a stretch", () => {
  const series = { timestamps: [10, 11, 12], figures: { published: [1, 2, 4], acked: [0, 1, 0] } } as unknown as Series;
  expect(within(series, { from: 11, to: 13 })).toMatchObject({ published: 6, acknowledged: 1, failed: 0 });
});

it("lets nobody change anything before it is known who that is", () => {
  expect([may("read"), isLockedOut.value]).toEqual([false, false]);
  me.value = { principal: "ann", scopes: ["read"], namespaces: null, expires: null, needs_token: true, server: { version: "", started: 0, store: "", tcp_port: 7777 } };
  expect(python("print(1)")).toContain(`ortoo://${window.location.hostname}:7777`);
  expect([may("read"), may("write")]).toEqual([true, false]);
  me.value = { ...me.value, scopes: ["admin"] };
  expect(may("write")).toBe(true);
});

it("counts all dead letters, and says when there are more", () => {
  const kinds = { errors: [{ count: 15 }, { count: 9 }], total: 2, scanned: 24, complete: true } as unknown as ErrorKinds;
  expect(howMany(kinds)).toEqual({ most: 24, isMore: false });
  expect([howMany({ ...kinds, total: 3 }).isMore, howMany({ ...kinds, complete: false }).isMore]).toEqual([true, true]);
});
