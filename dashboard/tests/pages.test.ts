import { describe, expect, it } from "vitest";
import { isLockedOut, me, may } from "../src/api";
import { href, parse } from "../src/router";
import { points, trend } from "../src/spark";
import { curl, literal } from "../src/snippets";
import { heat } from "../src/pages/delayed";
import { hourly } from "../src/pages/history";
import { bodyOf, parseHeaders, pythonOf, type Draft } from "../src/pages/publish";
import { fromInput, toInput } from "../src/pages/replay";
import { describe as told, pieces } from "../src/pages/strips";
import { grown } from "../src/pages/tail";
import { legs } from "../src/pages/timeline";
import { parseFilter } from "../src/pages/topics";
import { read } from "../src/pages/topic-settings";
import { visible } from "../src/virtual";
import type { MessageView, Report } from "../src/types";

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
    expect(visible(0, 300, 30, 1000)).toEqual({ start: 0, end: 18 });
    expect(visible(15_000, 300, 30, 1000)).toEqual({ start: 492, end: 518 });
    expect(visible(0, 300, 30, 3)).toEqual({ start: 0, end: 3 });
  });

  it("is filtered by namespace and text", () => {
    expect(parseFilter(" ns:shop  orders eu ")).toEqual({ namespace: "shop", match: "orders eu" });
    expect(parseFilter("")).toEqual({});
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

it("lets nobody change anything before it is known who that is", () => {
  expect([may("read"), isLockedOut.value]).toEqual([false, false]);
  me.value = { principal: "ann", scopes: ["read"], namespaces: null, expires: null, needs_token: true, server: { version: "", started: 0, store: "" } };
  expect([may("read"), may("write")]).toEqual([true, false]);
  me.value = { ...me.value, scopes: ["admin"] };
  expect(may("write")).toBe(true);
});
