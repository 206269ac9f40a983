/** Dead letters by what went wrong: a whole kind is redriven, or deleted, at once. */

import type { JSX } from "preact";
import { call } from "../api";
import { useData } from "../data";
import { ask, toast } from "../dialog";
import { count, plural } from "../format";
import { Mark, Time } from "../marks";
import { Action, Elsewhere, Empty, Failure, Heading, Loading } from "../parts";
import { href, place } from "../router";
import { curl, python, text } from "../snippets";
import type { ErrorKind, ErrorKinds } from "../types";
import { OfTopic } from "./of-topic";

export function DeadPage(): JSX.Element {
  return (
    <OfTopic title="Dead letters" state="dead" column="dead" figure={(row) => row.dead} none={<NoDead />}>
      {(namespace, topic, choice) => (
        <>
          <Heading title="Dead letters">{choice}</Heading>
          <DeadTab namespace={namespace} topic={topic} />
        </>
      )}
    </OfTopic>
  );
}

function NoDead(): JSX.Element {
  return (
    <Empty title="No dead letters">
      <p>
        A message that has failed <code>max_attempts</code> times, or was rejected, is kept here with its error until it is redriven or
        deleted.
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
      {kinds && !kinds.complete && <p class="quiet">only the {plural(kinds.scanned, "oldest dead letter")} were examined; there are more</p>}
      {kinds && kinds.errors.length > 0 && <All namespace={namespace} topic={topic} group={group} kinds={kinds} reload={found.reload} />}
      <ul class="kinds">
        {kinds?.errors.map((kind) => (
          <Kind key={kind.error} namespace={namespace} topic={topic} group={group} kind={kind} most={most} reload={found.reload} />
        ))}
      </ul>
    </section>
  );
}

interface Which {
  namespace: string;
  topic: string;
  group: string | undefined;
  error?: string;
}

interface HowMany {
  most: number;
  isMore: boolean;
}

interface Doing {
  redrive: () => Promise<void>;
  remove: () => Promise<void>;
  redriven: JSX.Element;
}

/** What can be done with dead letters: with those of one kind of error, or with all of a topic. */
function doing({ namespace, topic, group, error }: Which, { most, isMore }: HowMany, groups: string[], reload: () => void): Doing {
  const query = { namespace };
  const limit = isMore ? {} : { limit: most }; // no more than was said, however many come meanwhile
  const body = { ...(error === undefined ? {} : { error }), ...(group ? { group } : {}), ...limit };
  const many = `${isMore ? "more than " : ""}${count(most)}`;
  const what = `${many} dead letter${most === 1 && !isMore ? "" : "s"}`;
  const which = `${what} of ${topic}${error === undefined ? "" : ` with “${error || "no error"}”`}${group ? ` in the group ${group}` : ""}`;
  const more = [group && `group=${text(group)}`, error !== undefined && `error=${text(error)}`, !isMore && `limit=${most}`].filter(Boolean);
  const same = (verb: "redrive" | "delete", name: string): JSX.Element => (
    <Elsewhere
      curl={curl("POST", ["topics", topic, "dlq", verb], query, JSON.stringify(body))}
      python={python(`print(queue.${name}(${[text(topic), ...more].join(", ")}))`, namespace)}
    />
  );
  const act = async (verb: "redrive" | "delete", done: (messages: number) => string): Promise<void> => {
    const { messages } = await call<{ messages: number }>(["topics", topic, "dlq", verb], { query, body });
    toast(done(messages));
    reload();
  };
  const redriven = same("redrive", "redrive");
  const redrive = async (): Promise<void> => {
    const told = `${which} will be delivered again to ${groups.join(", ") || "the groups that failed them"}.`;
    if (await ask({ title: `Redrive ${what}?`, told, verb: `Redrive ${many}`, isDangerous: false, same: redriven }))
      await act("redrive", (messages) => `${plural(messages, "message")} will be delivered again`);
  };
  const remove = async (): Promise<void> => {
    const told = `${which} will be deleted permanently.`;
    if (await ask({ title: `Delete ${what}?`, told, verb: `Delete ${many}`, same: same("delete", "delete_dead_letters") }))
      await act("delete", (messages) => `${plural(messages, "dead letter")} deleted`);
  };
  return { redrive, remove, redriven };
}

/** How many there are of all kinds, as far as they were looked at. */
export function howMany(kinds: ErrorKinds): HowMany {
  const most = kinds.errors.reduce((sum, kind) => sum + kind.count, 0);
  return { most, isMore: !kinds.complete || kinds.errors.length < kinds.total };
}

function All({ kinds, reload, ...which }: Which & { kinds: ErrorKinds; reload: () => void }): JSX.Element {
  const { redrive, remove } = doing(which, howMany(kinds), [], reload);
  return (
    <p class="row">
      <Action onClick={redrive}>Redrive all …</Action>
      <Action kind="danger" onClick={remove}>
        Delete all …
      </Action>
    </p>
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
  const which = { namespace, topic, group, error: kind.error };
  const { redrive, remove, redriven } = doing(which, { most: kind.count, isMore: false }, Object.keys(kind.groups), reload);
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
        {redriven}
      </details>
    </li>
  );
}
