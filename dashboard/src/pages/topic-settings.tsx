/** The settings of a topic, those that differ from their default first, and how to change one. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { call } from "../api";
import { ask, toast } from "../dialog";
import { plural } from "../format";
import { Action, Elsewhere } from "../parts";
import { go } from "../router";
import { curl, literal, python, text } from "../snippets";
import type { TabProps } from "./topic";

function show(value: unknown): string {
  if (value === null || value === undefined) return "none";
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** What somebody typed as JSON, or as the text that it is. */
export function read(typed: string): unknown {
  if (typed.trim() === "" || typed === "none") return null;
  try {
    return JSON.parse(typed) as unknown;
  } catch {
    return typed;
  }
}

export function SettingsTab({ topic, reload }: TabProps): JSX.Element {
  const [name, setName] = useState("max_attempts");
  const [typed, setTyped] = useState<string | null>(null);
  const query = { namespace: topic.namespace };
  const value = typed ?? show(topic.config[name]);
  const change = { [name]: read(value) };
  const save = async (): Promise<void> => {
    await call(["topics", topic.name], { method: "PATCH", query, body: change });
    toast(`${name} of ${topic.name} is now ${value}`);
    setTyped(null);
    reload();
  };
  const meant = { ...query, if_id: topic.id }; // and not another that is made under its name meanwhile
  const purge = async (): Promise<void> => {
    const same = (
      <Elsewhere
        curl={curl("POST", ["topics", topic.name, "purge"], query)}
        python={python(`queue.purge(${text(topic.name)})`, topic.namespace)}
      />
    );
    const told = `All its messages will be deleted, for every group: currently ${plural(topic.messages, "message")}.`;
    if (!(await ask({ title: `Empty ${topic.name}?`, told, verb: "Delete all messages", same }))) return;
    const { messages } = await call<{ messages: number }>(["topics", topic.name, "purge"], { method: "POST", query: meant });
    toast(`${plural(messages, "message")} deleted`);
    reload();
  };
  const remove = async (): Promise<void> => {
    const told = `All its messages and groups will be deleted, too: currently ${plural(topic.messages, "message")} and ${plural(topic.groups.length, "group")}.`;
    const same = (
      <Elsewhere
        curl={curl("DELETE", ["topics", topic.name], query)}
        python={python(`queue.delete_topic(${text(topic.name)})`, topic.namespace)}
      />
    );
    if (!(await ask({ title: `Delete the topic ${topic.name}?`, told, verb: "Delete the topic", same }))) return;
    await call(["topics", topic.name], { method: "DELETE", query: meant });
    toast(`${topic.name} was deleted`);
    go(["topics"]);
  };
  return (
    <section aria-label="Settings of this topic">
      <div class="row">
        <label class="field">
          <span>change</span>
          <select
            value={name}
            onChange={(event) => {
              setName(event.currentTarget.value);
              setTyped(null);
            }}
          >
            {Object.keys(topic.config).map((each) => (
              <option key={each} value={each} selected={each === name}>
                {each}
              </option>
            ))}
          </select>
        </label>
        <label class="field">
          <span>to</span>
          <input value={value} spellcheck={false} onInput={(event) => setTyped(event.currentTarget.value)} />
        </label>
        <Action scope="admin" kind="primary" disabled={typed === null} onClick={save}>
          Change
        </Action>
      </div>
      <Elsewhere
        curl={curl("PATCH", ["topics", topic.name], query, JSON.stringify(change))}
        python={python(`queue.update_topic(${text(topic.name)}, ${name}=${literal(change[name])})`, topic.namespace)}
      />
      <dl class="settings">
        {Object.entries(topic.config).map(([each, set]) => (
          <div key={each}>
            <dt class="mono">{each}</dt>
            <dd class="mono">{show(set)}</dd>
          </div>
        ))}
      </dl>
      <div class="row">
        <Action scope="admin" kind="danger" onClick={purge}>
          Empty the topic …
        </Action>
        <Action scope="admin" kind="danger" onClick={remove}>
          Delete the topic …
        </Action>
      </div>
    </section>
  );
}
