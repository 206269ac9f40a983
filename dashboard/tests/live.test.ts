import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { base64url, connection, Live, throttled, type Incoming } from "../src/live";
import { token } from "../src/api";
import { isVisible } from "../src/data";
import { FakeSocket } from "./fakes";

let sockets: FakeSocket[] = [];

function made(): Live {
  const own: FakeSocket[] = []; // those of earlier tests are not gone, and see the same signals
  sockets = own;
  const make = (): WebSocket => {
    const socket = new FakeSocket();
    own.push(socket);
    return socket as unknown as WebSocket;
  };
  return new Live(make, () => undefined);
}

function last(): FakeSocket {
  const found = sockets.at(-1);
  if (!found) throw new Error("nobody has connected");
  return found;
}

beforeEach(() => {
  vi.useFakeTimers();
  sockets = [];
  isVisible.value = true;
});

afterEach(() => {
  vi.useRealTimers();
});

describe("the connection", () => {
  it("is made for what is watched, and hands on what comes for it", () => {
    const live = made();
    expect(sockets).toEqual([]);
    const heard: Incoming[] = [];
    live.watch("watch", { sort: "in" }, (message) => heard.push(message));
    last().accept();
    const [asked] = last().sent;
    expect(asked).toMatchObject({ type: "watch", sort: "in" });
    last().say({ type: "overview", id: asked?.["id"], matching: 3 });
    last().say({ type: "overview", id: "of somebody else" });
    expect(heard.map((message) => message["matching"])).toEqual([3]);
  });

  it("is given up when it is silent for long, also while it is made", () => {
    const live = made();
    live.watch("watch", { sort: "in" }, () => undefined);
    vi.advanceTimersByTime(31_000);
    expect([sockets[0]?.isClosed, connection.value]).toEqual([true, "lost"]);
    vi.advanceTimersByTime(1000);
    last().accept();
    for (let second = 0; second < 60; second += 1) {
      vi.advanceTimersByTime(1000);
      last().say({ type: "changes" });
    }
    expect([sockets.length, connection.value]).toEqual([2, "live"]);
    vi.advanceTimersByTime(32_000);
    expect(sockets).toHaveLength(3);
  });

  it("says what was refused, asks again for what may pass, and for a token that is no good any more", () => {
    let asked = 0;
    const own: FakeSocket[] = [];
    const live = new Live(
      () => {
        const socket = new FakeSocket();
        own.push(socket);
        return socket as unknown as WebSocket;
      },
      () => (asked += 1),
    );
    const heard: Incoming[] = [];
    live.watch("watch", { sort: "in" }, (message) => heard.push(message));
    const [socket] = own;
    if (!socket) throw new Error("nobody has connected");
    socket.accept();
    const id = socket.sent[0]?.["id"];
    socket.say({ type: "error", id, code: "too_many", detail: "too many look" });
    expect(heard.map((message) => message.detail)).toEqual(["too many look"]);
    expect(socket.sent.length).toBe(1);
    vi.advanceTimersByTime(5_000);
    expect(socket.sent.length).toBe(2);
    socket.say({ type: "error", id, code: "forbidden" });
    vi.advanceTimersByTime(20_000);
    expect(socket.sent.length).toBe(2);
    expect(asked).toBe(0);
    socket.say({ type: "error", id, code: "unauthenticated" });
    expect(asked).toBe(1);
  });

  it("may be silent where only a topic is tailed", () => {
    const live = made();
    live.watch("tail", { topic: "orders" }, () => undefined);
    last().accept();
    vi.advanceTimersByTime(120_000);
    expect([sockets.length, connection.value]).toEqual([1, "live"]);
  });

  it("comes back by itself, and asks again for what is still watched", () => {
    const live = made();
    const stop = live.watch("watch", { sort: "in" }, () => undefined);
    live.watch("tail", { topic: "orders" }, () => undefined);
    last().accept();
    stop();
    expect(last().sent.at(-1)).toMatchObject({ type: "unwatch" });
    last().drop();
    expect(connection.value).toBe("lost");
    expect(sockets).toHaveLength(1);
    vi.advanceTimersByTime(1000);
    expect(sockets).toHaveLength(2);
    last().accept();
    expect(connection.value).toBe("live");
    expect(last().sent.map((message) => message["type"])).toEqual(["tail"]);
  });

  it("waits longer each time, up to a bound", () => {
    made().watch("watch", {}, () => undefined);
    for (let tries = 0; tries < 12; tries += 1) {
      last().drop();
      vi.advanceTimersByTime(12_500);
    }
    expect(sockets).toHaveLength(13);
    last().drop();
    vi.advanceTimersByTime(7_400);
    expect(sockets).toHaveLength(13);
  });

  it("rests while the tab is hidden, and goes on when it is seen", () => {
    made().watch("watch", {}, () => undefined);
    last().accept();
    isVisible.value = false;
    expect(last().isClosed).toBe(true);
    expect(connection.value).toBe("paused");
    vi.advanceTimersByTime(60_000);
    expect(sockets).toHaveLength(1);
    isVisible.value = true;
    expect(sockets).toHaveLength(2);
  });
});

it("begins anew with another token", () => {
  made().watch("watch", {}, () => undefined);
  last().accept();
  token.value = "another";
  expect(sockets.map((socket) => socket.isClosed)).toEqual([true, false]);
  last().accept();
  expect(last().sent.map((message) => message["type"])).toEqual(["watch"]);
});

describe("what is drawn", () => {
  it("is drawn at once, and then at most five times a second", () => {
    let runs = 0;
    const flush = throttled(() => (runs += 1));
    flush();
    expect(runs).toBe(1);
    for (let at = 0; at < 1000; at += 1) {
      flush();
      vi.advanceTimersByTime(1);
    }
    vi.advanceTimersByTime(1000);
    expect(runs).toBeLessThanOrEqual(7);
    expect(runs).toBeGreaterThan(4);
  });

  it("has the last of what came", () => {
    let value = 0;
    let shown = 0;
    const flush = throttled(() => (shown = value));
    for (value = 1; value <= 10; value += 1) flush();
    vi.advanceTimersByTime(200);
    expect(shown).toBe(11);
  });
});

it("writes tokens as a subprotocol can hold them", () => {
  expect(base64url("a?>é")).toBe("YT8-w6k");
});
