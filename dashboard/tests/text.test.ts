import { describe, expect, it } from "vitest";
import { ago, bytes, count, plural, rate, short, span, utc } from "../src/format";
import { member, parseExactly, pretty } from "../src/rawjson";
import { asText, fromBase64, hex, preview, quote } from "../src/values";

const MESSAGE = { id: "1.0.0", topic: "t", namespace: "default", partition: 0, offset: 0, timestamp: 0, key: null, headers: {}, priority: 5, attempt: 1 };

describe("figures", () => {
  it("are short where there are many, and never pretend", () => {
    expect([0, 999, 9999, 12_400, 1_234_567, 0.25, 3_000_000_000, 2 ** 53 - 1].map((value) => short(value))).toEqual([
      "0", "999", "9,999", "12.4k", "1.2M", "0.3", "3.0G", "9.0P",
    ]);
    expect([short(null), rate(undefined), count(null)]).toEqual(["–", "–", "–"]);
    expect([count(1234567), plural(1, "message"), plural(2000, "message")]).toEqual(["1,234,567", "1 message", "2,000 messages"]);
    expect([bytes(0), bytes(1536), bytes(5 * 2 ** 30)]).toEqual(["0 B", "1.5 KiB", "5.0 GiB"]);
  });

  it("of time have at most two units", () => {
    expect([0, 0.0405, 9, 61, 250, 3600, 90_000, 900_000, -5].map((value) => span(value))).toEqual([
      "0s", "41ms", "9s", "1m 1s", "4m 10s", "1h", "1d 1h", "10d", "−5s",
    ]);
    expect([ago(90, 100), ago(110, 100)]).toEqual(["10s ago", "in 10s"]);
    expect(utc(0)).toBe("1970-01-01 00:00:00.000 UTC");
  });
});

it("shows the beginning of a value that was cut, though a letter of it was, too", () => {
  const sent = { ...MESSAGE, value_base64: btoa("\u00c3\u00bc\u00c3"), value_bytes: 5_000_000 };
  expect(preview(sent)).toBe("ü…");
  expect(preview({ ...sent, value_base64: btoa("\u00ff\u00fe") })).toBe("5,000,000 bytes");
});

it("quotes a text for a filter, whatever is in it", () => {
  expect(["ann lee", "a*", 'say "hi"', "back\\slash"].map(quote)).toEqual(['"ann lee"', '"a*"', '"say \\"hi\\""', '"back\\\\slash"']);
});

describe("JSON", () => {
  const sent = '{"message": {"id":"1.0.0", "x}":["]",1], "value" : {"n":1.0,"big":12345678901234567890,"s":"a\\"b,}"}, "z":0}}';

  it("is taken out of an answer as it was sent", () => {
    expect(member(sent, ["message", "value"])).toBe('{"n":1.0,"big":12345678901234567890,"s":"a\\"b,}"}');
    expect(member(sent, ["message", "z"])).toBe("0");
    expect(member(sent, ["message", "none"])).toBeNull();
    expect(member("[1]", ["message"])).toBeNull();
  });

  it("is indented without changing what it says", () => {
    expect(pretty('{"n":1.0,"a":[],"b":[1e5,{"c":"x, {y}"}]}')).toBe(
      '{\n  "n": 1.0,\n  "a": [],\n  "b": [\n    1e5,\n    {\n      "c": "x, {y}"\n    }\n  ]\n}',
    );
    expect(JSON.parse(pretty(sent))).toEqual(JSON.parse(sent));
    expect(pretty('"plain"')).toBe('"plain"');
  });

  it("is read like any other", () => {
    expect(parseExactly('{"a":[1,2.5,null,"x"]}')).toEqual({ a: [1, 2.5, null, "x"] });
  });
});

describe("values", () => {
  it("are text where they can be", () => {
    expect(preview({ ...MESSAGE, value: { a: 1 } })).toBe('{"a":1}');
    expect(preview({ ...MESSAGE, value_base64: btoa("two\nlines") })).toBe("two lines");
    expect(preview({ ...MESSAGE, value_base64: btoa("\xff\xfe") })).toBe("2 bytes");
    expect(preview({ ...MESSAGE, value: "x".repeat(300) }, 10)).toHaveLength(11);
    expect(preview({ ...MESSAGE, value: null })).toBe("null");
  });

  it("are bytes where they are none", () => {
    expect(asText(fromBase64(btoa("\xff")))).toBeNull();
    expect(hex(fromBase64(btoa("A\x00")))).toMatch(/^000000 {2}41 00 +A·$/);
    expect(hex(new Uint8Array(5000))).toContain("904 more bytes");
  });
});
