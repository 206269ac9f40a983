/** Messages of a topic, the newest first; found by text, key, header or value, or by their state in a group. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { callExactly } from "../api";
import { useData } from "../data";
import { count, plural } from "../format";
import { STATES, Time } from "../marks";
import { Choice, Empty, Failure, Loading } from "../parts";
import { go, href, ID, place, setQuery } from "../router";
import { isForward, lastMinutes, NO_STRETCH, StretchFields, stretchOf } from "../stretch";
import type { MessagePage, MessageView } from "../types";
import { preview, PREVIEW_BYTES } from "../values";
import { FirstMessage } from "./first";
import type { TabProps } from "./topic";

const LIMIT = 50;

export function MessagesTab({ topic }: TabProps): JSX.Element {
  const { query } = place.value;
  const state = query["state"] ?? "";
  const [filter, setFilter] = useState(query["filter"] ?? "");
  const [pages, setPages] = useState<string[]>([]);
  const names = topic.groups.map((group) => group.name);
  const group = names.includes(query["group"] ?? "") ? (query["group"] ?? "") : (names[0] ?? "");
  const next = pages.at(-1) ?? null;
  const isByState = state !== "" && group !== "";
  const path = isByState ? ["topics", topic.name, "groups", group, "messages"] : ["topics", topic.name, "messages"];
  const shared = { namespace: topic.namespace, limit: LIMIT, next, value_bytes: PREVIEW_BYTES };
  const stretch = stretchOf(query);
  const times = isForward(stretch) && { from_time: stretch.from, to_time: stretch.to };
  const asked = isByState ? { ...shared, state } : { ...shared, order: "newest", filter: query["filter"], ...times };
  const found = useData(JSON.stringify([path, asked]), (signal) => callExactly<MessagePage>(path, { query: asked, signal }), next ? 0 : 5);
  useEffect(() => setFilter(query["filter"] ?? ""), [query["filter"]]); // by going back and forward, too
  useEffect(() => setPages([]), [state, group, query["filter"], stretch?.from, stretch?.to]);

  return (
    <section aria-label="Messages">
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault();
          if (ID.test(filter.trim())) go(["message", filter.trim()]);
          else setQuery({ filter });
        }}
      >
        <label class="field grow">
          <span class="sr">Find messages</span>
          <input
            id="filter"
            type="search"
            value={filter}
            disabled={isByState}
            spellcheck={false}
            autocomplete="off"
            placeholder='find   key:ann  header.kind:mail  value.total>100  "two words"  an id   ⏎'
            onInput={(event) => {
              setFilter(event.currentTarget.value);
              if (event.currentTarget.value === "") setQuery({ filter: "" });
            }}
          />
        </label>
        <Choice
          label="state"
          value={state}
          options={[{ value: "", label: "any" }, ...STATES]}
          onChange={(value) => setQuery({ state: value })}
        />
        {state !== "" && names.length > 0 && (
          <Choice label="in group" value={group} options={names} onChange={(value) => setQuery({ group: value })} />
        )}
        {!isByState && (
          <button
            type="button"
            aria-pressed={stretch !== null}
            onClick={() => setQuery(stretch ? NO_STRETCH : { ...lastMinutes(10) })}
          >
            by time
          </button>
        )}
        {!isByState && stretch && names.length === 0 && <StretchFields stretch={stretch} onChange={(chosen) => setQuery({ ...chosen })} />}
      </form>
      <Failure error={found.error} />
      <Loading isLoading={found.isLoading} />
      {found.data && found.data.messages.length > 0 && <MessageTable messages={found.data.messages} />}
      {found.data && found.data.messages.length === 0 && <Nothing topic={topic} isFiltered={Boolean(query["filter"]) || isByState || stretch !== null} />}
      {found.data && <Foot page={found.data} pages={pages} setPages={setPages} />}
    </section>
  );
}

function Nothing({ topic, isFiltered }: { topic: TabProps["topic"]; isFiltered: boolean }): JSX.Element {
  return isFiltered ? <Empty title="No message matches" /> : <FirstMessage topic={topic.name} namespace={topic.namespace} />;
}

export function Foot(props: { page: MessagePage; pages: string[]; setPages: (pages: string[]) => void }): JSX.Element {
  const { page, pages, setPages } = props;
  const next = page.next;
  return (
    <p class="row foot">
      {page.complete === false && page.scanned !== undefined && (
        <span class="quiet">examined {plural(page.scanned, "message")} so far</span>
      )}
      {pages.length > 0 && (
        <button type="button" onClick={() => setPages(pages.slice(0, -1))}>
          Back
        </button>
      )}
      {next && (
        <button type="button" onClick={() => setPages([...pages, next])}>
          {page.complete === false && page.messages.length < LIMIT ? "Look further" : "More"}
        </button>
      )}
    </p>
  );
}

export function MessageTable({ messages }: { messages: MessageView[] }): JSX.Element {
  const hasDue = messages.some((message) => message.due !== undefined);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={`${count(messages.length)} messages`}>
      <table class="messages">
        <thead>
          <tr>
            <th scope="col">published</th>
            <th scope="col">id</th>
            <th scope="col">key</th>
            {hasDue && <th scope="col">due</th>}
            <th scope="col">value</th>
          </tr>
        </thead>
        <tbody>
          {messages.map((message) => (
            <tr key={message.id}>
              <td class="when">
                <Time at={message.timestamp} />
              </td>
              <td class="mono">
                <a href={href(["message", message.id])}>{message.id}</a>
              </td>
              <td class="key" title={message.key ?? undefined}>
                {message.key ?? <span class="quiet">–</span>}
              </td>
              {hasDue && (
                <td class="when">
                  <Time at={message.due} />
                </td>
              )}
              <td class="value mono">{preview(message)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
