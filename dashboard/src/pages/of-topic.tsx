/** A page about one topic among those that have something to show. Which one is in the address, else it is the first, and stays. */

import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import { short } from "../format";
import { GLYPHS } from "../marks";
import { useTopicsWhere, type Column } from "../overview";
import { Choice, Heading, Loading } from "../parts";
import { place, setQuery } from "../router";
import type { State, TopicRow } from "../types";

interface Props {
  title: string;
  state?: State;
  column: Column | null;
  /** How much of it a topic has; those that have none are not offered. */
  figure: (row: TopicRow) => number;
  none: JSX.Element;
  children: (namespace: string, topic: string, choice: JSX.Element) => JSX.Element;
}

type Name = [namespace: string, topic: string];

export function OfTopic({ title, state, column, figure, none, children }: Props): JSX.Element {
  const { overview, error } = useTopicsWhere({}, column, (row) => figure(row) > 0);
  const { query } = place.value;
  const first = useRef<Name | null>(null);
  const [row] = overview.rows;
  if (first.current === null && row) first.current = [row.namespace, row.name];
  const chosen: Name | null = query["topic"] === undefined ? first.current : [query["namespace"] ?? "default", query["topic"]];
  const options = overview.rows.map((each) => ({
    value: JSON.stringify([each.namespace, each.name]),
    label: `${told([each.namespace, each.name])}${state ? ` ${GLYPHS[state]}${short(figure(each))}` : ""}`,
  }));
  const value = JSON.stringify(chosen);
  if (chosen !== null && !options.some((option) => option.value === value)) options.unshift({ value, label: told(chosen) });
  const choice = (
    <Choice
      label="topic"
      value={value}
      options={options}
      onChange={(picked) => {
        const [namespace, topic] = JSON.parse(picked) as Name;
        setQuery({ namespace, topic, group: null, due_from: null, due_to: null });
      }}
    />
  );
  return (
    <>
      {chosen === null && <Heading title={title} />}
      {error && <p class="failure">{error}</p>}
      <Loading isLoading={chosen === null && overview.timestamp === 0 && error === null} />
      {overview.timestamp > 0 && chosen === null && none}
      {chosen && children(chosen[0], chosen[1], choice)}
    </>
  );
}

function told([namespace, topic]: Name): string {
  return namespace === "default" ? topic : `${namespace}/${topic}`;
}
