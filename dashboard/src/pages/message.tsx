/** One message: what it holds, what happened to it in each group, why it is not delivered, and what can be done. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { call, callText } from "../api";
import { useData } from "../data";
import { ask, toast } from "../dialog";
import { count } from "../format";
import { StateName, Time } from "../marks";
import { Action, Elsewhere, Failure, Heading, Loading, Snippet } from "../parts";
import { member, parseExactly, pretty } from "../rawjson";
import { go, href, place } from "../router";
import { curl, python, text } from "../snippets";
import type { Explanation, MessageDetail, MessageView, State, Trace } from "../types";
import { asText, fromBase64, hex } from "../values";
import { Timeline } from "./timeline";

interface Shown extends MessageDetail {
  raw: string | null; // its JSON as it was published
}

async function load(id: string, signal: AbortSignal): Promise<Shown> {
  const answer = await callText(["messages", id], { signal });
  return { ...(parseExactly(answer) as MessageDetail), raw: member(answer, ["message", "value"]) };
}

export function MessagePage(): JSX.Element {
  const id = place.value.path[1] ?? "";
  const found = useData(`message ${id}`, (signal) => load(id, signal), 3);
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
      {shown && <Payload message={shown.message} raw={shown.raw} />}
      {shown && (
        <Elsewhere
          curl={`${curl("GET", ["messages", id])}\n${curl("GET", ["messages", id, "trace"])}`}
          python={python(`print(queue.message(${text(id)}), queue.trace(${text(id)}))`)}
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
          <a href={href(["topic", message.namespace, message.topic, "messages"], { filter: `key:${message.key}` })}>
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
    const groups = pending.map(([group]) => group).join(", ");
    if (!(await ask(`Move ${id} to the dead letters?`, <p>It will not be delivered to {groups} unless it is redriven.</p>, "Move 1 message"))) return;
    await call(["messages", id, "dead-letter"], { body: { error: "moved by hand" } });
    toast(`${id} was moved to the dead letters`);
    reload();
  };
  const remove = async (): Promise<void> => {
    if (!(await ask(`Delete ${id}?`, <p>1 message of {topic} will be gone for every group.</p>, "Delete 1 message"))) return;
    await call(["messages", id], { method: "DELETE" });
    toast(`${id} was deleted`);
    go(["topic", namespace, topic]);
  };
  return (
    <>
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

type View = "json" | "raw" | "headers";

function Payload({ message, raw }: { message: MessageView; raw: string | null }): JSX.Element {
  const [view, setView] = useState<View>(raw === null ? "raw" : "json");
  const bytes = message.value_base64 === undefined ? null : fromBase64(message.value_base64);
  const plain = raw ?? (bytes === null ? "" : (asText(bytes) ?? hex(bytes)));
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
      {view === "raw" && <Snippet label={bytes === null ? "as it was published" : `${count(bytes.length)} bytes`} text={plain} />}
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
