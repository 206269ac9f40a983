/** What the server tells of all topics, kept up to date from what has changed. */

import { useEffect, useState } from "preact/hooks";
import { live, throttled, type Incoming } from "./live";
import type { Changes, Need, OverviewAnswer, TopicRow, Totals } from "./types";

export interface Overview {
  timestamp: number;
  totals: Totals | null;
  rows: TopicRow[];
  matching: number;
  needs: Need[];
}

export const NOTHING: Overview = { timestamp: 0, totals: null, rows: [], matching: 0, needs: [] };

function name(row: { namespace: string; name: string }): string {
  return `${row.namespace}\n${row.name}`;
}

export function whole(answer: OverviewAnswer): Overview {
  const { timestamp, totals, topics, matching, needs } = answer;
  return { timestamp, totals, rows: topics, matching, needs };
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
  };
}

export interface Watch {
  namespace?: string | undefined;
  match?: string | undefined;
  sort?: string | undefined;
  limit?: number | undefined;
  offset?: number | undefined;
}

/** Watches, and goes on showing what was last known while the connection is away. */
export function useOverview(watch: Watch): { overview: Overview; error: string | null } {
  const [state, setState] = useState<{ overview: Overview; error: string | null }>({ overview: NOTHING, error: null });
  const fields = JSON.stringify(watch);
  useEffect(() => {
    let current: Overview = NOTHING;
    let error: string | null = null;
    const flush = throttled(() => setState({ overview: current, error }));
    const hear = (message: Incoming): void => {
      if (message.type === "overview") current = whole(message as unknown as OverviewAnswer);
      else if (message.type === "changes") current = changed(current, message as unknown as Changes);
      if (message.type === "error") error = message.detail ?? "the server refused";
      else error = null;
      flush();
    };
    return live().watch("watch", JSON.parse(fields) as Record<string, unknown>, hear);
  }, [fields]);
  return state;
}
