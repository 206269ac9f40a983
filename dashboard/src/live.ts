/** One WebSocket for all that is watched. It comes back by itself, says again what is watched, and rests while nobody looks. */

import { signal } from "@preact/signals";
import { token, isLockedOut } from "./api";
import { isVisible } from "./data";

export type Connection = "idle" | "connecting" | "live" | "lost" | "paused";
export const connection = signal<Connection>("idle");

export interface Incoming {
  type: string;
  id?: string;
  detail?: string;
  [field: string]: unknown;
}

interface Watched {
  open: Record<string, unknown>;
  close: string;
  hear: (message: Incoming) => void;
}

const FIRST_WAIT = 500;
const LONGEST_WAIT = 10_000;

export class Live {
  private socket: WebSocket | null = null;
  private readonly watched = new Map<string, Watched>();
  private wait = FIRST_WAIT;
  private timer = 0;
  private numbers = 0;

  constructor(private readonly make: () => WebSocket = connect) {
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

  private rest(): void {
    window.clearTimeout(this.timer);
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
    socket.onopen = () => {
      this.wait = FIRST_WAIT;
      connection.value = "live";
      for (const { open } of this.watched.values()) this.say(open);
    };
    socket.onmessage = (event: MessageEvent<string>) => {
      const message = JSON.parse(event.data) as Incoming;
      if (message.id !== undefined) this.watched.get(message.id)?.hear(message);
    };
    socket.onclose = () => {
      if (this.socket !== socket) return;
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
    };
  }
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
