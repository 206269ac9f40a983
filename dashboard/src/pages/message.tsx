/** One message: what it holds, what happened to it in each group, why it is not delivered, and what can be done. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { call, callText } from "../api";
import { useData } from "../data";
import { ask, toast } from "../dialog";
import { bytes, count } from "../format";
import { StateName, Time } from "../marks";
import { Action, Elsewhere, Failure, Heading, Loading, Snippet } from "../parts";
import { member, parseExactly, pretty } from "../rawjson";
import { go, href, place } from "../router";
import { curl, python, text } from "../snippets";
import type { Explanation, MessageDetail, MessageView, State, Trace } from "../types";
import { asText, fromBase64, hex, quote } from "../values";
import { Timeline } from "./timeline";

interface Shown extends MessageDetail {
  raw: string | null; // its JSON as it was published
}

const AT_FIRST = 64 * 1024; // bytes of a value: they are asked for again every few seconds
const AT_MOST = 8 * 1024 * 1024; // a browser that shows more than that answers nobody for seconds

async function load(id: string, most: number, signal?: AbortSignal): Promise<Shown> {
  const answer = await callText(["messages", id], { query: { value_bytes: most }, ...(signal ? { signal } : {}) });
  return { ...(parseExactly(answer) as MessageDetail), raw: member(answer, ["message", "value"]) };
}

export function MessagePage(): JSX.Element {
  const id = place.value.path[1] ?? "";
  const found = useData(`message ${id}`, (signal) => load(id, AT_FIRST, signal), 3);
  const trace = useData(`trace ${id}`, (signal) => call<Trace>(["messages", id, "trace"], { signal }), 3);
  const shown = found.data;
  const reload = (): void => {
    found.reload();
    trace.reload();
  };
  return (
    <>
      <Heading title={`Message ${id}`}>{shown && <Actions shown={shown} reload={reload} />}</Heading>
      <Failure error={found.error} />
      <Loading isLoading={found.isLoading} />
      {shown && <Facts message={shown.message} />}
      {shown && Object.keys(shown.states).length > 0 && <States id={id} states={shown.states} />}
      {trace.data && trace.data.events.length > 0 && (
        <Timeline trace={trace.data} states={shown?.states ?? {}} />
      )}
      {shown && <Value key={id} shown={shown} />}
      {shown && (
        <Elsewhere
          curl={[
            curl("GET", ["messages", id]),
            curl("GET", ["messages", id, "trace"]),
            curl("POST", ["messages", id, "retry"], {}, "{}"),
          ].join("\n")}
          python={python(
            `print(queue.message(${text(id)}), queue.trace(${text(id)}))`,
            "default",
            `queue.retry_now(${text(id)})  # what waits for its next attempt is tried at once`,
          )}
        />
      )}
    </>
  );
}

function Facts({ message }: { message: MessageView }): JSX.Element {
  return (
    <p class="facts">
      <span>
        topic <a href={href(["topic", message.namespace, message.topic])}>{message.topic}</a>
        {message.namespace !== "default" && ` in ${message.namespace}`}
      </span>
      <span>
        key{" "}
        {message.key === null ? (
          "none"
        ) : (
          <a href={href(["topic", message.namespace, message.topic, "messages"], { filter: `key:${quote(message.key)}` })}>
            {message.key}
          </a>
        )}
      </span>
      <span>
        published <Time at={message.timestamp} />
        {message.publisher && ` by ${message.publisher}`}
      </span>
      <span>
        partition {message.partition}, offset {count(message.offset)}
      </span>
      <span>priority {message.priority}</span>
      {message.due !== undefined && (
        <span>
          due <Time at={message.due} />
        </span>
      )}
      {message.expires !== undefined && (
        <span>
          expires <Time at={message.expires} />
        </span>
      )}
    </p>
  );
}

function States({ id, states }: { id: string; states: Record<string, State> }): JSX.Element {
  return (
    <section aria-labelledby="why">
      <h2 id="why">Why is it where it is?</h2>
      <ul class="explained">
        {Object.entries(states).map(([group, state]) => (
          <li key={group}>
            <span class="explained-group">{group}</span>
            <StateName state={state} />
            <Why id={id} group={group} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function Why({ id, group }: { id: string; group: string }): JSX.Element {
  const found = useData(
    `explain ${id} ${group}`,
    (signal) => call<Explanation>(["messages", id, "explain"], { query: { group }, signal }),
    3,
  );
  if (found.error) return <Failure error={found.error} />;
  if (found.data === null) return <span class="quiet">…</span>;
  const { text: told, behind } = found.data;
  return (
    <span>
      {told}{" "}
      {behind && (
        <a class="mono" href={href(["message", behind.id])}>
          {behind.id}
        </a>
      )}
    </span>
  );
}

/** Of a dead letter: delivers what it is of again, to the group that failed it. */
function Redrive({ letter, reload }: { letter: MessageView; reload: () => void }): JSX.Element | null {
  const origin = letter.headers["ortoo-origin"] ?? "";
  const found = useData(`origin ${origin}`, (signal) => call<MessageDetail>(["messages", origin], { query: { value_bytes: 0 }, signal }));
  const group = letter.headers["ortoo-group"] ?? "the group that failed it";
  if (found.data === null) return null; // it is gone, or never was: anybody may publish there
  const { topic, namespace } = found.data.message;
  const body = { ids: [letter.id] };
  const redrive = async (): Promise<void> => {
    const same = (
      <Elsewhere
        curl={curl("POST", ["topics", topic, "dlq", "redrive"], { namespace }, JSON.stringify(body))}
        python={python(`print(queue.redrive(${text(topic)}, ids=[${text(letter.id)}]))`, namespace)}
      />
    );
    const told = `${origin} of ${topic} will be delivered again to ${group}.`;
    if (!(await ask({ title: "Redrive this dead letter?", told, verb: "Redrive 1", isDangerous: false, same }))) return;
    const { messages } = await call<{ messages: number }>(["topics", topic, "dlq", "redrive"], { query: { namespace }, body });
    if (messages === 0) toast("it could not be redriven: its headers do not name a valid origin, or the queue refused it", true);
    else {
      toast(`${origin} will be delivered again`);
      go(["message", origin]);
    }
    reload();
  };
  return (
    <Action kind="primary" onClick={redrive}>
      Redrive …
    </Action>
  );
}

function Actions({ shown, reload }: { shown: Shown; reload: () => void }): JSX.Element {
  const { id, topic, namespace } = shown.message;
  const waiting = Object.entries(shown.states).filter(([, state]) => state === "delayed" || state === "blocked" || state === "ready");
  const pending = Object.entries(shown.states).filter(([, state]) => state !== "done" && state !== "dead");
  const retry = async (): Promise<void> => {
    await call(["messages", id, "retry"], { body: {} });
    toast(`${id} can be delivered now`);
    reload();
  };
  const move = async (): Promise<void> => {
    const told = `It will not be delivered to ${pending.map(([group]) => group).join(", ")} unless it is redriven.`;
    const body = { error: "moved by hand" };
    const same = (
      <Elsewhere
        curl={curl("POST", ["messages", id, "dead-letter"], {}, JSON.stringify(body))}
        python={python(`queue.dead_letter(${text(id)}, error=${text(body.error)})`)}
      />
    );
    if (!(await ask({ title: `Move ${id} to the dead letters?`, told, verb: "Move 1 message", same }))) return;
    await call(["messages", id, "dead-letter"], { body });
    toast(`${id} was moved to the dead letters`);
    reload();
  };
  const remove = async (): Promise<void> => {
    const same = <Elsewhere curl={curl("DELETE", ["messages", id])} python={python(`queue.delete_message(${text(id)})`)} />;
    const told = `1 message of ${topic} will be deleted for every group.`;
    if (!(await ask({ title: `Delete ${id}?`, told, verb: "Delete 1 message", same }))) return;
    await call(["messages", id], { method: "DELETE" });
    toast(`${id} was deleted`);
    go(["topic", namespace, topic]);
  };
  return (
    <>
      {shown.message.headers["ortoo-origin"] && <Redrive letter={shown.message} reload={reload} />}
      <Action disabled={waiting.length === 0} onClick={retry}>
        Retry now
      </Action>
      <a class="button" href={href(["publish"], { namespace, topic, like: id })}>
        Publish again …
      </a>
      <Action kind="danger" disabled={pending.length === 0} onClick={move}>
        To the dead letters …
      </Action>
      <Action kind="danger" onClick={remove}>
        Delete …
      </Action>
    </>
  );
}

/** What was sent of it, and all of it once somebody asks for that. A value never changes. */
function Value({ shown }: { shown: Shown }): JSX.Element {
  const [whole, setWhole] = useState<Shown | null>(null);
  const { message } = whole ?? shown;
  const size = message.value_bytes;
  const loadAll = async (): Promise<void> => setWhole(await load(message.id, AT_MOST));
  return (
    <>
      <Payload key={size === undefined ? "whole" : "cut"} message={message} raw={(whole ?? shown).raw} />
      {size !== undefined && (
        <p class="row">
          <span class="quiet">
            These are the first {bytes(Math.min(AT_FIRST, size))} of {bytes(size)}.
            {size > AT_MOST && " That is too large for a browser: use curl or Python."}
          </span>
          {size <= AT_MOST && <Action scope="read" onClick={loadAll}>Load all</Action>}
        </p>
      )}
    </>
  );
}

type View = "json" | "raw" | "headers";

function Payload({ message, raw }: { message: MessageView; raw: string | null }): JSX.Element {
  const [view, setView] = useState<View>(raw === null ? "raw" : "json");
  const held = message.value_base64 === undefined ? null : fromBase64(message.value_base64);
  const plain = raw ?? (held === null ? "" : (asText(held, message.value_bytes !== undefined) ?? hex(held)));
  const headers = Object.entries(message.headers);
  return (
    <section aria-labelledby="payload">
      <h2 id="payload">Payload</h2>
      <div class="segments" role="group" aria-label="Show it as">
        {(["json", "raw", "headers"] as const).map((each) => (
          <button key={each} type="button" aria-pressed={view === each} disabled={each === "json" && raw === null} onClick={() => setView(each)}>
            {each}
            {each === "headers" && ` ${headers.length}`}
          </button>
        ))}
      </div>
      {view === "json" && <Snippet label="JSON" text={pretty(raw ?? "")} />}
      {view === "raw" && <Snippet label={held === null ? "as it was published" : `${count(held.length)} bytes`} text={plain} />}
      {view === "headers" &&
        (headers.length === 0 ? (
          <p class="quiet">It has no headers.</p>
        ) : (
          <dl class="settings">
            {headers.map(([name, value]) => (
              <div key={name}>
                <dt class="mono">{name}</dt>
                <dd class="mono">{value}</dd>
              </div>
            ))}
          </dl>
        ))}
    </section>
  );
}
