/** Calls to the server, with the token if there is one; errors as the server words them. */

import { signal } from "@preact/signals";
import { hearTime } from "./clock";
import { parseExactly } from "./rawjson";
import type { Me } from "./types";

const TOKEN = "ortoo-token";

/** Kept for this tab only. */
export const token = signal<string | null>(readToken());
export const me = signal<Me | null>(null);
/** Set when the server wants a token, or another one. */
export const isLockedOut = signal(false);
/** Whether this server keeps what jobs of the pipeline report. */
export const hasPipelines = signal(false);

function readToken(): string | null {
  try {
    return window.sessionStorage.getItem(TOKEN);
  } catch {
    return null; // a browser may forbid storage
  }
}

export function setToken(value: string | null): void {
  token.value = value;
  try {
    if (value === null) window.sessionStorage.removeItem(TOKEN);
    else window.sessionStorage.setItem(TOKEN, value);
  } catch {
    // then it is kept until the page is left
  }
}

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
  ) {
    super(detail);
  }
}

export type Query = Record<string, string | number | boolean | null | undefined>;

export function address(path: string[], query: Query = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return `v1/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** Browsers take these for steps along the path, however they are written: such an address would be about something else. */
export function isStep(segment: string): boolean {
  return segment === "" || segment === "." || segment === "..";
}

export interface Options {
  method?: string;
  query?: Query;
  body?: unknown;
  /** A body that is JSON already: a value keeps the spelling that it was given. */
  text?: string;
  signal?: AbortSignal;
}

export async function call<T>(path: string[], options: Options = {}): Promise<T> {
  const text = await callText(path, options);
  return (text === "" ? undefined : JSON.parse(text)) as T;
}

/** The same of messages, whose values may have numbers that ours cannot hold. */
export async function callExactly<T>(path: string[], options: Options = {}): Promise<T> {
  return parseExactly(await callText(path, options)) as T;
}

/** The answer as it was sent, for values that must keep their spelling. */
export async function callText(path: string[], options: Options = {}): Promise<string> {
  const headers: Record<string, string> = {};
  if (token.value !== null) headers["authorization"] = `Bearer ${token.value}`;
  const body = options.text ?? (options.body === undefined ? undefined : JSON.stringify(options.body));
  if (body !== undefined) headers["content-type"] = "application/json";
  const step = path.find(isStep);
  if (step !== undefined) throw new Problem(0, "invalid", `a browser cannot request something named “${step}”: use the command line`);
  let response: Response;
  try {
    response = await fetch(address(path, options.query), {
      method: options.method ?? (body === undefined ? "GET" : "POST"),
      headers,
      ...(body === undefined ? {} : { body }),
      ...(options.signal ? { signal: options.signal } : {}),
      credentials: "same-origin",
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(0, "unreachable", "the server does not answer; trying again");
  }
  hearTime(response.headers.get("date"));
  if (response.ok) return response.text();
  throw await toProblem(response);
}

async function toProblem(response: Response): Promise<Problem> {
  if (response.status === 401) isLockedOut.value = true;
  try {
    const told = (await response.json()) as { code?: string; detail?: string; title?: string };
    return new Problem(response.status, told.code ?? "error", told.detail ?? told.title ?? response.statusText);
  } catch {
    return new Problem(response.status, "error", `${response.status} ${response.statusText}`);
  }
}

export async function loadMe(): Promise<void> {
  me.value = await call<Me>(["me"]);
  isLockedOut.value = false;
  void call(["pipelines"], { query: { limit: 1 } }).then(
    () => (hasPipelines.value = true),
    (error: unknown) => (hasPipelines.value = error instanceof Problem && error.status === 403),
  );
}

/** Until the server has said who this is, nothing may be changed. The scope admin is everything. */
export function may(scope: "read" | "write" | "admin"): boolean {
  const scopes = me.value?.scopes ?? [];
  return scopes.includes(scope) || scopes.includes("admin");
}
