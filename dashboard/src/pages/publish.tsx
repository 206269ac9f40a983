/** Publishing a message, or one like another; and the same as curl and Python, as it is typed. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call, callText } from "../api";
import { toast } from "../dialog";
import { Action, Choice, Field, Heading, Snippet } from "../parts";
import { member, parseExactly, pretty } from "../rawjson";
import { href, place } from "../router";
import { curl, literal, python, text } from "../snippets";
import type { MessageDetail } from "../types";

type Kind = "JSON" | "text" | "base64";

export interface Draft {
  topic: string;
  namespace: string;
  kind: Kind;
  value: string;
  key: string;
  headers: string;
  delay: string;
  priority: string;
  dedup: string;
}

/** `name: value` on each line. */
export function parseHeaders(typed: string): Record<string, string> {
  const lines = typed.split("\n").map((line) => [line, line.indexOf(":")] as const);
  const found = lines.filter(([, colon]) => colon > 0);
  return Object.fromEntries(found.map(([line, colon]) => [line.slice(0, colon).trim(), line.slice(colon + 1).trim()]));
}

function toBase64(bytes: Uint8Array): string {
  let letters = "";
  for (const byte of bytes) letters += String.fromCharCode(byte);
  return btoa(letters);
}

/** What is wrong with it, or the body of the request: its value stays as it was typed. */
export function bodyOf(draft: Draft): { body: string } | { wrong: string } {
  if (draft.topic === "") return { wrong: "name a topic" };
  const more: Record<string, unknown> = {};
  if (draft.key !== "") more["key"] = draft.key;
  const headers = parseHeaders(draft.headers);
  if (Object.keys(headers).length > 0) more["headers"] = headers;
  if (draft.delay !== "") more["delay"] = Number(draft.delay);
  if (draft.priority !== "") more["priority"] = Number(draft.priority);
  if (draft.dedup !== "") more["dedup_id"] = draft.dedup;
  for (const name of ["delay", "priority"]) if (Number.isNaN(more[name])) return { wrong: `${name} is a number` };
  let value: string;
  if (draft.kind === "JSON") {
    try {
      JSON.parse(draft.value);
    } catch (error) {
      return { wrong: `the value is not JSON: ${(error as Error).message}` };
    }
    value = `"value":${draft.value.trim()}`;
  } else if (draft.kind === "text") value = `"value_base64":${text(toBase64(new TextEncoder().encode(draft.value)))}`;
  else {
    try {
      atob(draft.value);
    } catch {
      return { wrong: "the value is not base64" };
    }
    value = `"value_base64":${text(draft.value.trim())}`;
  }
  const rest = JSON.stringify(more).slice(1, -1);
  return { body: `{"messages":[{${value}${rest ? `,${rest}` : ""}}]}` };
}

export function pythonOf(draft: Draft): string {
  const value =
    draft.kind === "JSON" ? literalOf(draft.value) : draft.kind === "text" ? text(draft.value) : `base64.b64decode(${text(draft.value)})`;
  const more = [
    draft.key && `key=${text(draft.key)}`,
    draft.headers && `headers=${literal(parseHeaders(draft.headers))}`,
    draft.delay && `delay=${draft.delay}`,
    draft.priority && `priority=${draft.priority}`,
    draft.dedup && `dedup_id=${text(draft.dedup)}`,
  ].filter(Boolean);
  return python(`queue.publish(${[text(draft.topic), value, ...more].join(", ")})`, draft.namespace);
}

function literalOf(json: string): string {
  try {
    return literal(JSON.parse(json));
  } catch {
    return text(json);
  }
}

const EMPTY: Omit<Draft, "topic" | "namespace"> = {
  kind: "JSON",
  value: '{"item": "tea"}',
  key: "",
  headers: "",
  delay: "",
  priority: "",
  dedup: "",
};

export function PublishPage(): JSX.Element {
  const { query } = place.value;
  const [draft, setDraft] = useState<Draft>({
    ...EMPTY,
    topic: query["topic"] ?? "",
    namespace: query["namespace"] ?? "default",
  });
  const set = <K extends keyof Draft>(name: K) => (value: Draft[K]) => setDraft((old) => ({ ...old, [name]: value }));
  const [placed, setPlaced] = useState<string | null>(null);
  const like = query["like"];
  useEffect(() => {
    if (like === undefined) return;
    void callText(["messages", like]).then((answer) => {
      const { message } = parseExactly(answer) as MessageDetail;
      const raw = member(answer, ["message", "value"]);
      setDraft((old) => ({
        ...old,
        topic: message.topic,
        namespace: message.namespace,
        kind: raw === null ? "base64" : "JSON",
        value: raw === null ? (message.value_base64 ?? "") : pretty(raw),
        key: message.key ?? "",
        headers: Object.entries(message.headers)
          .map(([name, value]) => `${name}: ${value}`)
          .join("\n"),
      }));
    }).catch((error: unknown) => toast(`message ${like}: ${(error as Error).message}`, true));
  }, [like]);

  const made = bodyOf(draft);
  const path = ["topics", draft.topic, "messages"];
  const shared = { namespace: draft.namespace };
  const send = async (): Promise<void> => {
    if (!("body" in made)) return;
    const answer = await call<{ results: { id: string; duplicate: boolean }[] }>(path, { query: shared, text: made.body });
    const [first] = answer.results;
    if (first === undefined) return;
    setPlaced(first.id);
    toast(first.duplicate ? `known already, as ${first.id}` : `published as ${first.id}`);
  };
  return (
    <>
      <Heading title="Publish" />
      <div class="columns">
        <form class="stack" onSubmit={(event) => event.preventDefault()}>
          <div class="row">
            <Field label="topic" value={draft.topic} onInput={set("topic")} placeholder="orders" />
            <Field label="namespace" value={draft.namespace} onInput={set("namespace")} size={12} />
          </div>
          <div class="row">
            <Field label="key" value={draft.key} onInput={set("key")} placeholder="ann" size={14} />
            <Choice label="value as" value={draft.kind} options={["JSON", "text", "base64"]} onChange={set("kind")} />
          </div>
          <label class="field tall">
            <span>value</span>
            <textarea rows={9} class="mono" spellcheck={false} value={draft.value} onInput={(event) => set("value")(event.currentTarget.value)} />
          </label>
          <label class="field tall">
            <span>headers, one on each line</span>
            <textarea rows={2} class="mono" spellcheck={false} placeholder="kind: mail" value={draft.headers} onInput={(event) => set("headers")(event.currentTarget.value)} />
          </label>
          <div class="row">
            <Field label="delay, seconds" value={draft.delay} onInput={set("delay")} size={8} />
            <Field label="priority" value={draft.priority} onInput={set("priority")} size={4} placeholder="5" />
            <Field label="dedup id" value={draft.dedup} onInput={set("dedup")} size={14} />
          </div>
          {"wrong" in made && <p class="failure">{made.wrong}</p>}
          <div class="row">
            <Action kind="primary" disabled={"wrong" in made} onClick={send}>
              Publish 1 message
            </Action>
            {placed && (
              <span>
                published as <a class="mono" href={href(["message", placed])}>{placed}</a>
              </span>
            )}
          </div>
        </form>
        <div>
          <Snippet label="curl" text={"body" in made ? curl("POST", path, shared, made.body) : "…"} />
          <Snippet label="Python" text={pythonOf(draft)} />
        </div>
      </div>
    </>
  );
}
