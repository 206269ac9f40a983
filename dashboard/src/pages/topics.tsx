/** Every topic, the rows in sight only: the server sorts, filters and tells what changed of those. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { plural, rate, short, span } from "../format";
import { P95 } from "../latency";
import { Priority, Tally } from "../marks";
import { COLUMNS, useOverview, useTopicsWhere, type Overview } from "../overview";
import { Choice, Empty, Heading, Loading } from "../parts";
import { go, href, place, setQuery } from "../router";
import { Arrow, Spark } from "../spark";
import { lastMinutes } from "../stretch";
import { parseFilter, type Filter } from "../topic-filter";
import type { TopicRow } from "../types";
import { VirtualTable, type Range } from "../virtual";
import { FirstMessage } from "./first";

const ROW = 30;
const PAGE = 50;
const SORTS = ["in", "out", "backlog", "oldest", "dead", "name"] as const;
export type Sort = (typeof SORTS)[number];

function windowOf(range: Range): { offset: number; limit: number } {
  const offset = Math.floor(range.start / PAGE) * PAGE;
  return { offset, limit: Math.ceil((range.end - offset) / PAGE) * PAGE || PAGE };
}

interface Listed {
  overview: Overview;
  error: string | null;
  rowAt: (index: number) => TopicRow | undefined;
  onRange?: (range: Range) => void;
}

/** The server sorts and filters, and only the rows in sight are asked for. */
function useWindow(filter: Filter, sort: Sort): Listed {
  const [shown, setShown] = useState({ offset: 0, limit: PAGE });
  const { namespace, match } = filter;
  const { overview, error, watch } = useOverview({ namespace, match, sort, ...shown });
  const offset = watch.offset ?? 0;
  const onRange = (range: Range): void => {
    const wanted = windowOf(range);
    if (wanted.offset !== shown.offset || wanted.limit !== shown.limit) setShown(wanted);
  };
  return { overview, error, rowAt: (index) => overview.rows[index - offset], onRange };
}

/** Here is filtered what the server cannot, and then sorted. */
function useFiltered(filter: Filter, sort: Sort): Listed {
  const { namespace, match, column, holds = () => true } = filter;
  const { overview, error } = useTopicsWhere({ namespace, match }, column, holds);
  const rows = overview.rows.toSorted((one, other) => order(one, other, sort));
  return { overview, error, rowAt: (index) => rows[index] };
}

export function order(one: TopicRow, other: TopicRow, sort: Sort): number {
  const byFigure = sort === "name" ? 0 : COLUMNS[sort](other) - COLUMNS[sort](one);
  if (byFigure !== 0) return byFigure;
  const [here, there] = [`${one.namespace}\n${one.name}`, `${other.namespace}\n${other.name}`];
  return here < there ? -1 : Number(here > there);
}

export function TopicsPage(): JSX.Element {
  const { query } = place.value;
  const typed = query["filter"] ?? "";
  const filter = parseFilter(typed);
  const sort = (SORTS as readonly string[]).includes(query["sort"] ?? "") ? (query["sort"] as Sort) : "name";
  const shared = { typed, filter, sort };
  return (
    <>
      <Heading title="Topics">
        <label class="field grow">
          <span class="sr">Filter</span>
          <input
            id="filter"
            type="search"
            value={typed}
            placeholder="filter   /   ns:shop orders lag>1m has:dead backlog>1k"
            spellcheck={false}
            autocomplete="off"
            onInput={(event) => setQuery({ filter: event.currentTarget.value })}
          />
        </label>
        <Choice label="sort" value={sort} options={SORTS} onChange={(value) => setQuery({ sort: value })} />
      </Heading>
      {filter.wrong && <p class="failure">{filter.wrong}</p>}
      {filter.holds ? <Filtered {...shared} /> : <Windowed {...shared} />}
    </>
  );
}

interface ListProps {
  typed: string;
  filter: Filter;
  sort: Sort;
}

function Windowed({ typed, filter, sort }: ListProps): JSX.Element {
  return <List typed={typed} {...useWindow(filter, sort)} />;
}

function Filtered({ typed, filter, sort }: ListProps): JSX.Element {
  return <List typed={typed} {...useFiltered(filter, sort)} />;
}

const KEYS: Record<string, (row: TopicRow) => void> = {
  p: (row) => go(["publish"], { namespace: row.namespace, topic: row.name }),
  x: (row) => go(["topic", row.namespace, row.name, "dead"]),
  r: (row) => go(["topic", row.namespace, row.name, "groups"], { ...lastMinutes(5) }),
};

function List({ typed, overview, error, rowAt, onRange }: Listed & { typed: string }): JSX.Element {
  const isEmpty = overview.timestamp > 0 && overview.matching === 0;
  const open = (row: TopicRow | undefined): void => {
    if (row) go(["topic", row.namespace, row.name]);
  };
  return (
    <>
      {error && <p class="failure">{error}</p>}
      <Loading isLoading={overview.timestamp === 0 && error === null} />
      {isEmpty && typed && (
        <Empty title={`No topic matches “${typed}”`}>
          <p>
            <button type="button" onClick={() => setQuery({ filter: "" })}>
              Show all
            </button>
          </p>
        </Empty>
      )}
      {isEmpty && !typed && <FirstMessage />}
      {overview.matching > 0 && (
        <VirtualTable
          name="topics"
          label={plural(overview.matching, "topic")}
          total={overview.matching}
          rowHeight={ROW}
          head={<Head />}
          render={(index) => <Row row={rowAt(index)} />}
          {...(onRange ? { onRange } : {})}
          onOpen={(index) => open(rowAt(index))}
          onKey={(key, index) => {
            const row = rowAt(index);
            if (row && Object.hasOwn(KEYS, key)) KEYS[key]?.(row);
          }}
        />
      )}
    </>
  );
}

function Head(): JSX.Element {
  const columns: [string, string][] = [
    ["topic", "c-name"],
    ["in", "c-rate num mid"],
    ["out", "c-rate num mid"],
    ["waiting", "c-tally num"],
    ["leased", "c-tally num mid"],
    ["delayed", "c-tally num wide"],
    ["dead", "c-tally num"],
    ["oldest", "c-rate num"],
    ["to deliver", "c-rate num wide"],
    ["to ack", "c-rate num wide"],
    ["groups", "c-few num wide"],
    ["depth, 30 s", "c-spark wide"],
  ];
  return (
    <>
      {columns.map(([label, kind]) => (
        <span key={label} role="columnheader" class={`cell ${kind}`}>
          {label}
        </span>
      ))}
    </>
  );
}

function Row({ row }: { row: TopicRow | undefined }): JSX.Element {
  if (row === undefined)
    return (
      <span role="gridcell" class="cell c-name quiet">
        …
      </span>
    );
  const waiting = Math.max(0, row.depth - row.leased - row.delayed);
  return (
    <>
      <span role="gridcell" class="cell c-name">
        <a href={href(["topic", row.namespace, row.name])} tabIndex={-1}>
          {row.name}
        </a>
        {row.namespace !== "default" && <span class="quiet"> {row.namespace}</span>}
        <Priority value={row.priority} />
      </span>
      <span role="gridcell" class={row.in > 0 ? "cell c-rate num mid" : "cell c-rate num mid zero"}>
        {rate(row.in)}
      </span>
      <span role="gridcell" class={row.out > 0 ? "cell c-rate num mid" : "cell c-rate num mid zero"}>
        {rate(row.out)}
      </span>
      <span role="gridcell" class="cell c-tally num">
        <Tally state="ready" value={waiting} />
      </span>
      <span role="gridcell" class="cell c-tally num mid">
        <Tally state="leased" value={row.leased} />
      </span>
      <span role="gridcell" class="cell c-tally num wide">
        <Tally state="delayed" value={row.delayed} />
      </span>
      <span role="gridcell" class="cell c-tally num">
        <Tally state="dead" value={row.dead} />
      </span>
      <span role="gridcell" class="cell c-rate num">
        {row.oldest_seconds > 0 ? span(row.oldest_seconds) : "–"}
        {row.oldest_seconds > 0 && <Arrow values={row.trend} />}
      </span>
      <span role="gridcell" class="cell c-rate num wide">
        <P95 what="published → delivered" latency={row.delivery_latency} />
      </span>
      <span role="gridcell" class="cell c-rate num wide">
        <P95 what="delivered → acknowledged" latency={row.ack_latency} />
      </span>
      <span role="gridcell" class="cell c-few num wide">
        {short(row.groups)}
      </span>
      <span role="gridcell" class="cell c-spark wide">
        <Spark values={row.trend} width={64} height={16} />
      </span>
    </>
  );
}
