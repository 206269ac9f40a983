/** One WebSocket for all that is watched. It comes back by itself, says again what is watched, and rests while nobody looks. */

import { signal } from "@preact/signals";
import { isLockedOut, loadMe, token } from "./api";
import { isVisible } from "./data";

export type Connection = "idle" | "connecting" | "live" | "lost" | "paused";
export const connection = signal<Connection>("idle");

export interface Incoming {
  type: string;
  id?: string;
  detail?: string;
  code?: string;
  [field: string]: unknown;
}

interface Watched {
  open: Record<string, unknown>;
  close: string;
  hear: (message: Incoming) => void;
}

const FIRST_WAIT = 500;
const LONGEST_WAIT = 10_000;
const AGAIN = 5_000;
const PASSING = new Set(["too_many", "rate_limited", "shutting_down", "store_failed", "unavailable"]);
const SILENCE = 30_000; // the server tells something every second: a connection that is silent for so long has died unnoticed

export class Live {
  private socket: WebSocket | null = null;
  private readonly watched = new Map<string, Watched>();
  private wait = FIRST_WAIT;
  private timer = 0;
  private silence = 0;
  private numbers = 0;

  constructor(
    private readonly make: () => WebSocket = connect,
    private readonly onRefused: () => void = askWho,
  ) {
    isVisible.subscribe(() => {
      this.look();
    });
    let known = token.value;
    token.subscribe((value) => {
      if (value === known) return;
      known = value; // what was let in with another token must not go on
      this.rest();
      this.look();
    });
  }

  /** Begins to watch; the answer ends it. `hear` gets every message with its id, errors too. */
  watch(kind: "watch" | "tail", fields: Record<string, unknown>, hear: (message: Incoming) => void): () => void {
    this.numbers += 1;
    const id = `${kind}-${this.numbers}`;
    const open = { type: kind, id, ...fields };
    this.watched.set(id, { open, close: `un${kind}`, hear });
    if (this.socket?.readyState === WebSocket.OPEN) this.say(open);
    this.look();
    return () => {
      const known = this.watched.get(id);
      this.watched.delete(id);
      if (known && this.socket?.readyState === WebSocket.OPEN) this.say({ type: known.close, id });
      this.look();
    };
  }

  private say(message: Record<string, unknown>): void {
    this.socket?.send(JSON.stringify(message));
  }

  /** Connects if there is a reason to, rests if there is none. */
  private look(): void {
    const isWanted = this.watched.size > 0 && isVisible.value && !isLockedOut.value;
    if (isWanted && this.socket === null && this.timer === 0) this.open();
    if (!isWanted && !isVisible.value) this.rest();
  }

  /** Gives it up when nothing is heard for long, while something is watched that is told every second. */
  private listen(socket: WebSocket): void {
    window.clearTimeout(this.silence);
    this.silence = window.setTimeout(() => {
      if (this.socket !== socket) return;
      const isTold = [...this.watched.values()].some(({ open }) => open["type"] === "watch");
      if (socket.readyState === WebSocket.OPEN && !isTold) this.listen(socket);
      else {
        socket.close();
        this.lose(socket); // a dead peer never confirms that it is closed
      }
    }, SILENCE);
  }

  private rest(): void {
    window.clearTimeout(this.timer);
    window.clearTimeout(this.silence);
    this.timer = 0;
    const socket = this.socket;
    this.socket = null;
    socket?.close();
    connection.value = "paused";
  }

  private open(): void {
    connection.value = connection.value === "lost" ? "lost" : "connecting";
    const socket = this.make();
    this.socket = socket;
    let wasOpen = false;
    this.listen(socket);
    socket.onopen = () => {
      wasOpen = true;
      this.wait = FIRST_WAIT;
      connection.value = "live";
      for (const { open } of this.watched.values()) this.say(open);
    };
    socket.onmessage = (event: MessageEvent<string>) => {
      this.listen(socket);
      const message = read(event.data);
      if (message === null) socket.close(); // whatever it is, it is not this server any more
      else this.hear(message);
    };
    socket.onclose = () => {
      this.lose(socket);
      if (!wasOpen) this.onRefused();
    };
  }

  private hear(message: Incoming): void {
    const id = message.id;
    if (id === undefined) return;
    if (message.type === "error") {
      if (message.code === "unauthenticated") this.onRefused();
      else if (PASSING.has(message.code ?? "")) window.setTimeout(() => this.again(id), AGAIN);
    }
    this.watched.get(id)?.hear(message);
  }

  /** What was refused for a reason that passes: too many look, or the server recovers. */
  private again(id: string): void {
    const known = this.watched.get(id);
    if (known && this.socket?.readyState === WebSocket.OPEN) this.say(known.open);
  }

  private lose(socket: WebSocket): void {
    if (this.socket !== socket) return;
    window.clearTimeout(this.silence);
    this.socket = null;
    connection.value = "lost";
    this.timer = window.setTimeout(
      () => {
        this.timer = 0;
        this.look();
      },
      this.wait * (0.75 + Math.random() / 2),
    );
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT);
  }
}

function read(data: string): Incoming | null {
  try {
    return JSON.parse(data) as Incoming;
  } catch {
    return null;
  }
}

/** A token that is refused looks like a server that is away: only a request tells which it is. */
function askWho(): void {
  loadMe().catch(() => undefined);
}

function connect(): WebSocket {
  const url = new URL("v1/stream", window.location.href.replace(/[?#].*$/, ""));
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  return new WebSocket(url, token.value === null ? ["ortoo"] : ["ortoo", `bearer.${base64url(token.value)}`]);
}

export function base64url(text: string): string {
  const bytes = new TextEncoder().encode(text);
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replace(/=+$/, "");
}

let shared: Live | null = null;

export function live(): Live {
  shared ??= new Live();
  return shared;
}

/** At most five times a second, however much comes in: the first at once, the rest together. */
export function throttled(run: () => void, millis = 200): () => void {
  let timer = 0;
  let isDue = false;
  const fire = (): void => {
    timer = 0;
    if (!isDue) return;
    isDue = false;
    run();
    timer = window.setTimeout(fire, millis);
  };
  return () => {
    isDue = true;
    if (timer === 0) fire();
  };
}
