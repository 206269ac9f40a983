/** Messages as they come in. No group is involved, so nobody is disturbed; what was left out is counted. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { plural } from "../format";
import { live, throttled } from "../live";
import { Empty } from "../parts";
import { place, setQuery } from "../router";
import type { MessageView } from "../types";
import { PREVIEW_BYTES } from "../values";
import { MessageTable } from "./messages";
import type { TabProps } from "./topic";

const KEPT = 200;
const RATE = 100;

interface Tailed {
  messages: MessageView[];
  dropped: number;
  matched: number;
}

const NOTHING: Tailed = { messages: [], dropped: 0, matched: 0 };

/** The newest first, and no more than fit. */
export function grown(old: Tailed, more: Tailed): Tailed {
  return {
    messages: [...more.messages.toReversed(), ...old.messages].slice(0, KEPT),
    dropped: old.dropped + more.dropped,
    matched: old.matched + more.matched,
  };
}

export function TailTab({ topic }: TabProps): JSX.Element {
  const filter = place.value.query["filter"] ?? "";
  const [typed, setTyped] = useState(filter);
  const [shown, setShown] = useState<Tailed>(NOTHING);
  const [error, setError] = useState<string | null>(null);
  const [isHeld, setHeld] = useState(false);
  const held = useRef(isHeld);
  held.current = isHeld;

  useEffect(() => {
    let current = NOTHING;
    setShown(NOTHING);
    setError(null);
    const flush = throttled(() => {
      if (!held.current) setShown(current);
    });
    return live().watch("tail", { topic: topic.name, namespace: topic.namespace, filter, rate: RATE, value_bytes: PREVIEW_BYTES }, (message) => {
      if (message.type === "error") setError(message.detail ?? "the server refused");
      else if (message.type === "tailed") {
        current = grown(current, message as unknown as Tailed);
        flush();
      }
    });
  }, [topic.name, topic.namespace, filter]);

  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      const isElsewhere = event.target instanceof HTMLElement && event.target.matches("input, textarea, select, button, a, summary");
      if (event.key !== " " || isElsewhere) return;
      event.preventDefault();
      setHeld((old) => !old);
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);

  return (
    <section aria-label="Tail">
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault();
          setQuery({ filter: typed });
        }}
      >
        <label class="field grow">
          <span class="sr">Filter</span>
          <input
            id="filter"
            type="search"
            value={typed}
            spellcheck={false}
            autocomplete="off"
            placeholder="filter   key:ann  value.total>100   ⏎"
            onInput={(event) => setTyped(event.currentTarget.value)}
          />
        </label>
        <button type="button" aria-pressed={isHeld} onClick={() => setHeld(!isHeld)}>
          {isHeld ? "Go on" : "Hold"} <kbd>Space</kbd>
        </button>
      </form>
      <p class="quiet" role="status">
        {plural(shown.matched, "message")} matched, {plural(shown.dropped, "message")} left out beyond {RATE} a second
      </p>
      {error && <p class="failure">{error}</p>}
      {shown.messages.length === 0 && !error ? (
        <Empty title="Waiting for the next message …">
          <p>New messages appear here as they are published.</p>
        </Empty>
      ) : (
        <MessageTable messages={shown.messages} />
      )}
    </section>
  );
}
