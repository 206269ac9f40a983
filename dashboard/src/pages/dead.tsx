/** Dead letters by what went wrong: a whole kind is redriven, or deleted, at once. */

import type { JSX } from "preact";
import { call } from "../api";
import { useData } from "../data";
import { ask, toast } from "../dialog";
import { count, plural, short } from "../format";
import { Mark, Time } from "../marks";
import { useOverview } from "../overview";
import { Action, Choice, Elsewhere, Empty, Failure, Heading, Loading } from "../parts";
import { href, place, setQuery } from "../router";
import { curl, python, text } from "../snippets";
import type { ErrorKind, ErrorKinds } from "../types";

export function DeadPage(): JSX.Element {
  const { overview, error } = useOverview({ sort: "dead", limit: 100 });
  const rows = overview.rows.filter((row) => row.dead > 0);
  const wanted = place.value.query["topic"];
  const chosen = rows.find((row) => `${row.namespace}/${row.name}` === wanted) ?? rows[0];
  return (
    <>
      <Heading title="Dead letters">
        {chosen && (
          <Choice
            label="topic"
            value={`${chosen.namespace}/${chosen.name}`}
            options={rows.map((row) => ({
              value: `${row.namespace}/${row.name}`,
              label: `${row.namespace === "default" ? "" : `${row.namespace}/`}${row.name} ✕${short(row.dead)}`,
            }))}
            onChange={(value) => setQuery({ topic: value })}
          />
        )}
      </Heading>
      {error && <p class="failure">{error}</p>}
      <Loading isLoading={overview.timestamp === 0 && error === null} />
      {overview.timestamp > 0 && rows.length === 0 && <NoDead />}
      {chosen && <DeadTab namespace={chosen.namespace} topic={chosen.name} />}
    </>
  );
}

function NoDead(): JSX.Element {
  return (
    <Empty title="No dead letters">
      <p>
        A message that fails as often as <code>max_attempts</code> allows, or that is rejected, is kept here with its error until
        somebody redrives or deletes it.
      </p>
    </Empty>
  );
}

export function DeadTab({ namespace, topic }: { namespace: string; topic: string }): JSX.Element {
  const group = place.value.query["dead_group"];
  const found = useData(
    JSON.stringify(["errors", namespace, topic, group]),
    (signal) => call<ErrorKinds>(["topics", topic, "dlq", "errors"], { query: { namespace, group }, signal }),
    5,
  );
  const kinds = found.data;
  const most = Math.max(1, ...(kinds?.errors.map((kind) => kind.count) ?? []));
  return (
    <section aria-label="Dead letters by error">
      <Failure error={found.error} />
      <Loading isLoading={found.isLoading} />
      {kinds?.errors.length === 0 && <NoDead />}
      {kinds && !kinds.complete && (
        <p class="quiet">
          looked at {count(kinds.scanned)} of {count(kinds.total)}
        </p>
      )}
      <ul class="kinds">
        {kinds?.errors.map((kind) => (
          <Kind key={kind.error} namespace={namespace} topic={topic} group={group} kind={kind} most={most} reload={found.reload} />
        ))}
      </ul>
    </section>
  );
}

interface KindProps {
  namespace: string;
  topic: string;
  group: string | undefined;
  kind: ErrorKind;
  most: number;
  reload: () => void;
}

function Kind({ namespace, topic, group, kind, most, reload }: KindProps): JSX.Element {
  const query = { namespace };
  const body = { error: kind.error, ...(group ? { group } : {}) };
  const what = plural(kind.count, "dead letter");
  const redrive = async (): Promise<void> => {
    const told = `${what} of ${topic} with “${kind.error}” will be delivered again to ${Object.keys(kind.groups).join(", ")}.`;
    if (!(await ask(`Redrive ${what}?`, <p>{told}</p>, `Redrive ${count(kind.count)}`, false))) return;
    const done = await call<{ messages: number }>(["topics", topic, "dlq", "redrive"], { query, body });
    toast(`${plural(done.messages, "message")} will be delivered again`);
    reload();
  };
  const remove = async (): Promise<void> => {
    const told = `${what} of ${topic} with “${kind.error}” will be gone for good.`;
    if (!(await ask(`Delete ${what}?`, <p>{told}</p>, `Delete ${count(kind.count)}`))) return;
    const done = await call<{ messages: number }>(["topics", topic, "dlq", "delete"], { query, body });
    toast(`${plural(done.messages, "dead letter")} deleted`);
    reload();
  };
  return (
    <li>
      <div class="kind-head">
        <span class="kind-bar" aria-hidden="true">
          <svg viewBox="0 0 100 1" preserveAspectRatio="none">
            <rect class="f-dead" width={Math.max(1, (100 * kind.count) / most)} height="1" />
          </svg>
        </span>
        <span class="num">
          <Mark state="dead" /> <strong>{count(kind.count)}</strong>
        </span>
        <span class="kind-error mono">{kind.error || "no error was given"}</span>
        <span class="quiet">
          <Time at={kind.first} /> – <Time at={kind.last} />
        </span>
        <span class="buttons">
          <Action kind="primary" onClick={redrive}>
            Redrive {count(kind.count)}
          </Action>
          <Action kind="danger" onClick={remove}>
            Delete
          </Action>
        </span>
      </div>
      <details>
        <summary>
          {Object.entries(kind.groups)
            .map(([name, value]) => `${name} ${count(value)}`)
            .join(", ")}
        </summary>
        <p class="mono example">{kind.example}</p>
        <p>
          {kind.ids.map((id) => (
            <a key={id} class="mono chip" href={href(["message", id])}>
              {id}
            </a>
          ))}
        </p>
        <Elsewhere
          curl={curl("POST", ["topics", topic, "dlq", "redrive"], query, JSON.stringify(body))}
          python={python(`print(queue.redrive(${text(topic)}, error=${text(kind.error)}))`, namespace)}
        />
      </details>
    </li>
  );
}
