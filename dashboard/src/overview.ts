/** What the server tells of all topics, kept up to date from what has changed. */

import { useEffect, useState } from "preact/hooks";
import { live, throttled, type Incoming } from "./live";
import type { Changes, Need, OverviewAnswer, ServerMemory, TopicRow, Totals } from "./types";

export interface Overview {
  timestamp: number;
  totals: Totals | null;
  rows: TopicRow[];
  matching: number;
  needs: Need[];
  memory: ServerMemory | null;
}

export const NOTHING: Overview = { timestamp: 0, totals: null, rows: [], matching: 0, needs: [], memory: null };

function name(row: { namespace: string; name: string }): string {
  return `${row.namespace}\n${row.name}`;
}

export function whole(answer: OverviewAnswer): Overview {
  const { timestamp, totals, topics, matching, needs, memory } = answer;
  return { timestamp, totals, rows: topics, matching, needs, memory };
}

export function changed(old: Overview, changes: Changes): Overview {
  let rows = old.rows;
  if (changes.topics?.length || changes.order) {
    const known = new Map(rows.map((row) => [name(row), row]));
    for (const row of changes.topics ?? []) known.set(name(row), { ...known.get(name(row)), ...row });
    const order = changes.order?.map(([namespace, topic]) => `${namespace}\n${topic}`) ?? rows.map(name);
    rows = order.map((key) => known.get(key)).filter((row) => row !== undefined);
  }
  return {
    timestamp: changes.timestamp,
    totals: changes.totals ?? old.totals,
    rows,
    matching: changes.matching ?? old.matching,
    needs: changes.needs ?? old.needs,
    memory: changes.memory ?? old.memory,
  };
}

export interface Watch {
  namespace?: string | undefined;
  match?: string | undefined;
  sort?: string | undefined;
  limit?: number | undefined;
  offset?: number | undefined;
}

interface Watched {
  overview: Overview;
  error: string | null;
  /** What it is of: after another one was asked for, that may still be the one before. */
  watch: Watch;
}

/** Watches, and goes on showing what was last known while the connection is away. */
export function useOverview(watch: Watch): Watched {
  const [state, setState] = useState<Watched>({ overview: NOTHING, error: null, watch });
  const fields = JSON.stringify(watch);
  useEffect(() => {
    const asked = JSON.parse(fields) as Watch;
    let current: Overview = NOTHING;
    let error: string | null = null;
    let isOver = false;
    const flush = throttled(() => {
      if (!isOver) setState({ overview: current, error, watch: asked });
    });
    const hear = (message: Incoming): void => {
      if (message.type === "overview") current = whole(message as unknown as OverviewAnswer);
      else if (message.type === "changes") current = changed(current, message as unknown as Changes);
      if (message.type === "error") error = message.detail ?? "the server refused";
      else error = null;
      flush();
    };
    const stop = live().watch("watch", { ...asked }, hear);
    return () => {
      isOver = true;
      stop();
    };
  }, [fields]);
  return state;
}

const AT_FIRST = 100;
const AT_MOST = 1000; // that is what the server samples

/** Sorts of the server by which those that are looked for come first, and what a row has there. */
export const COLUMNS = {
  in: (row: TopicRow) => row.in,
  out: (row: TopicRow) => row.out,
  backlog: (row: TopicRow) => row.depth,
  oldest: (row: TopicRow) => row.oldest_seconds,
  dead: (row: TopicRow) => row.dead,
} as const;
export type Column = keyof typeof COLUMNS;

/**
 * Watches the topics for which something holds that the server cannot look for. `column`: one in which each of them has more than
 * nothing, so that they come first, and the rest need not be looked at; null where there is none.
 */
export function useTopicsWhere(
  watch: Pick<Watch, "namespace" | "match">,
  column: Column | null,
  holds: (row: TopicRow) => boolean,
): { overview: Overview; error: string | null } {
  const [limit, setLimit] = useState(AT_FIRST);
  const { overview, error } = useOverview({ ...watch, sort: column ?? "name", limit: column === null ? AT_MOST : limit });
  const last = overview.rows.at(-1);
  const isCut = overview.rows.length >= limit && limit < AT_MOST && column !== null && last !== undefined && COLUMNS[column](last) > 0;
  useEffect(() => {
    if (isCut) setLimit(AT_MOST);
  }, [isCut]);
  const rows = overview.rows.filter(holds);
  return { overview: { ...overview, rows, matching: rows.length }, error };
}
