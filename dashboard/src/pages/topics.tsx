/** Every topic, the rows in sight only: the server sorts, filters and tells what changed of those. */

import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { rate, short, span } from "../format";
import { Tally } from "../marks";
import { useOverview } from "../overview";
import { Choice, Empty, Heading, Loading } from "../parts";
import { go, href, place, setQuery } from "../router";
import { Arrow, Spark } from "../spark";
import type { TopicRow } from "../types";
import { VirtualTable, type Range } from "../virtual";
import { FirstMessage } from "./first";

const ROW = 30;
const PAGE = 50;
const SORTS = ["in", "out", "backlog", "oldest", "dead", "name"] as const;
type Sort = (typeof SORTS)[number];

/** `ns:shop orders` asks for topics of shop with orders in their name. */
export function parseFilter(text: string): { namespace?: string; match?: string } {
  const words = text.split(/\s+/).filter(Boolean);
  const namespace = words.find((word) => word.startsWith("ns:"))?.slice(3);
  const match = words.filter((word) => !word.startsWith("ns:")).join(" ");
  return { ...(namespace ? { namespace } : {}), ...(match ? { match } : {}) };
}

function windowOf(range: Range): { offset: number; limit: number } {
  const offset = Math.floor(range.start / PAGE) * PAGE;
  return { offset, limit: Math.ceil((range.end - offset) / PAGE) * PAGE || PAGE };
}

export function TopicsPage(): JSX.Element {
  const { query } = place.value;
  const filter = query["filter"] ?? "";
  const sort = (SORTS as readonly string[]).includes(query["sort"] ?? "") ? (query["sort"] as Sort) : "name";
  const [shown, setShown] = useState({ offset: 0, limit: PAGE });
  const { overview, error } = useOverview({ ...parseFilter(filter), sort, ...shown });
  const settled = useRef({ offset: 0, rows: [] as TopicRow[] });
  if (overview.timestamp > 0) settled.current = { offset: shown.offset, rows: overview.rows };
  const { offset, rows } = settled.current;
  const rowAt = (index: number): TopicRow | undefined => rows[index - offset];
  const onRange = (range: Range): void => {
    const wanted = windowOf(range);
    if (wanted.offset !== shown.offset || wanted.limit !== shown.limit) setShown(wanted);
  };
  const isEmpty = overview.timestamp > 0 && overview.matching === 0;
  return (
    <>
      <Heading title="Topics">
        <label class="field grow">
          <span class="sr">Filter</span>
          <input
            id="filter"
            type="search"
            value={filter}
            placeholder="filter   /   ns:shop orders"
            spellcheck={false}
            autocomplete="off"
            onInput={(event) => setQuery({ filter: event.currentTarget.value })}
          />
        </label>
        <Choice label="sort" value={sort} options={SORTS} onChange={(value) => setQuery({ sort: value })} />
      </Heading>
      {error && <p class="failure">{error}</p>}
      <Loading isLoading={overview.timestamp === 0 && error === null} />
      {isEmpty && filter && (
        <Empty title={`No topic matches “${filter}”`}>
          <p>
            <button type="button" onClick={() => setQuery({ filter: "" })}>
              Show all
            </button>
          </p>
        </Empty>
      )}
      {isEmpty && !filter && <FirstMessage />}
      {overview.matching > 0 && (
        <VirtualTable
          label={`${overview.matching} topics`}
          total={overview.matching}
          rowHeight={ROW}
          head={<Head />}
          render={(index) => <Row row={rowAt(index)} />}
          onRange={onRange}
          onOpen={(index) => {
            const row = rowAt(index);
            if (row) go(["topic", row.namespace, row.name]);
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
        <Arrow values={row.trend} />
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
