/** Where the page is, kept behind the # of the address: it works behind any path prefix, and a link leads back to the same view. */

import { signal } from "@preact/signals";

export interface Place {
  path: string[];
  query: Record<string, string>;
}

export function parse(hash: string): Place {
  const [path = "", query = ""] = hash.replace(/^#/, "").split("?", 2);
  const segments = path.split("/").filter(Boolean).map(decode);
  return { path: segments, query: Object.fromEntries(new URLSearchParams(query)) };
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

type Query = Record<string, string | number | null | undefined>;

export function href(path: string[], query: Query = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export const place = signal<Place>(parse(window.location.hash));

window.addEventListener("hashchange", () => {
  place.value = parse(window.location.hash);
});

export function go(path: string[], query: Query = {}): void {
  window.location.hash = href(path, query);
}

/** Changes what the address says about this view, without a step in the browser's history. */
export function setQuery(changes: Query): void {
  const { path, query } = place.value;
  const address = href(path, { ...query, ...changes });
  window.history.replaceState(null, "", address);
  place.value = parse(address);
}

/** How the id of a message looks. */
export const ID = /^\d+\.\d+\.\d+$/;
