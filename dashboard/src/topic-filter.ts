/** What the filter of the topics list understands: `ns:shop orders lag>1m has:dead`. All terms must hold. */

import { COLUMNS, type Column } from "./overview";
import type { TopicRow } from "./types";

const FIGURES: Record<string, { of: (row: TopicRow) => number; column: Column | null; isTime?: boolean }> = {
  in: { of: COLUMNS.in, column: "in" },
  out: { of: COLUMNS.out, column: "out" },
  backlog: { of: COLUMNS.backlog, column: "backlog" },
  lag: { of: COLUMNS.oldest, column: "oldest", isTime: true },
  dead: { of: COLUMNS.dead, column: "dead" },
  leased: { of: (row) => row.leased, column: "backlog" },
  delayed: { of: (row) => row.delayed, column: "backlog" },
  failed: { of: (row) => row.failed, column: null },
  groups: { of: (row) => row.groups, column: null },
  priority: { of: (row) => row.priority, column: null },
};
const UNITS: Record<string, number> = { "": 1, s: 1, m: 60, h: 3600, d: 86_400 };
const SIZES: Record<string, number> = { "": 1, k: 1e3, M: 1e6 };
const COMPARE: Record<string, (one: number, other: number) => boolean> = {
  ">": (one, other) => one > other,
  ">=": (one, other) => one >= other,
  "<": (one, other) => one < other,
  "<=": (one, other) => one <= other,
  "=": (one, other) => one === other,
};
const TERM = /^([a-z]+)(>=|<=|>|<|=)([\d.]+)([a-zA-Z]?)$/;

export interface Filter {
  namespace?: string;
  match?: string;
  /** Without it, the server does all of the filtering. */
  holds?: (row: TopicRow) => boolean;
  /** In which every match has more than nothing. */
  column: Column | null;
  wrong?: string;
}

interface Condition {
  holds: (row: TopicRow) => boolean;
  column: Column | null;
}

function figure(name: string): (typeof FIGURES)[string] | undefined {
  return Object.hasOwn(FIGURES, name) ? FIGURES[name] : undefined;
}

/** A condition, what is wrong with it, or null: then it is a part of a name. */
function read(word: string): Condition | string | null {
  const has = word.startsWith("has:") ? word.slice(4) : null;
  if (has !== null) {
    const known = figure(has);
    return known ? { holds: (row) => known.of(row) > 0, column: known.column } : `has: one of ${Object.keys(FIGURES).join(", ")}`;
  }
  const [, name = "", sign = "", number = "", unit = ""] = TERM.exec(word) ?? [];
  const known = figure(name);
  if (known === undefined) return /[<>]/.test(word) ? `to compare: ${Object.keys(FIGURES).join(", ")}, as in lag>1m` : null;
  const scale = (known.isTime ? UNITS : SIZES)[unit];
  const wanted = Number(number) * (scale ?? NaN);
  const compare = COMPARE[sign];
  if (Number.isNaN(wanted) || compare === undefined) return known.isTime ? `${name} is a time: 30s, 5m, 2h, 1d` : `${name} is a number: 100, 5k, 2M`;
  const isMore = sign.startsWith(">") || sign === "=";
  return { holds: (row) => compare(known.of(row), wanted), column: isMore && (wanted > 0 || sign === ">") ? known.column : null };
}

export function parseFilter(text: string): Filter {
  const found: Filter = { column: null };
  const conditions: Condition[] = [];
  const words: string[] = [];
  for (const word of text.split(/\s+/).filter(Boolean)) {
    if (word.startsWith("ns:")) {
      if (word.length > 3) found.namespace = word.slice(3);
      continue;
    }
    const term = read(word);
    if (typeof term === "string") found.wrong = term;
    else if (term === null) words.push(word);
    else conditions.push(term);
  }
  const [match, ...rest] = words.toSorted((one, other) => other.length - one.length);
  if (match !== undefined) found.match = match;
  for (const word of rest) conditions.push({ holds: (row) => row.name.toLowerCase().includes(word.toLowerCase()), column: null });
  if (conditions.length > 0) found.holds = (row) => conditions.every((condition) => condition.holds(row));
  found.column = conditions.find((condition) => condition.column !== null)?.column ?? null;
  return found;
}
