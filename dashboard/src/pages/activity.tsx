/** What happened in the last seconds, the newest first: one line for each topic, second and kind. */

import type { JSX } from "preact";
import { call } from "../api";
import { useData } from "../data";
import { count } from "../format";
import { GLYPHS, Time } from "../marks";
import { Failure } from "../parts";
import { href } from "../router";
import type { ActivityEvent } from "../types";

const SHOWN = 12;
const EVERY = 2; // seconds

const KINDS: Partial<Record<string, [glyph: string, kind: string, words: string]>> = {
  pushed: [GLYPHS.ready, "ready", "published"],
  delivered: [GLYPHS.leased, "leased", "delivered"],
  completed: [GLYPHS.done, "done", "acknowledged"],
  failed: [GLYPHS.delayed, "delayed", "failed"],
  dead_lettered: [GLYPHS.dead, "dead", "dead-lettered"],
  topic_created: ["+", "done", "topic created"],
  topic_deleted: ["−", "dead", "topic deleted"],
};

export function Activity(): JSX.Element {
  const found = useData("activity", (signal) => call<{ events: ActivityEvent[] }>(["activity"], { query: { limit: SHOWN }, signal }), EVERY);
  const events = found.data?.events ?? [];
  return (
    <section aria-labelledby="activity" class="activity">
      <h2 id="activity">Activity</h2>
      <Failure error={found.error} />
      {found.data && events.length === 0 && <p class="calm">Nothing has happened in the last minutes.</p>}
      <ul class="feed">
        {events.map((event) => (
          <Event key={JSON.stringify([event.timestamp, event.kind, event.namespace, event.topic])} event={event} />
        ))}
      </ul>
    </section>
  );
}

function Event({ event }: { event: ActivityEvent }): JSX.Element {
  const [glyph, kind, words] = KINDS[event.kind] ?? ["·", "done", event.kind];
  const isMessages = !event.kind.startsWith("topic_");
  return (
    <li>
      <Time at={event.timestamp} />
      <span class={`state s-${kind}`}>
        <span aria-hidden="true">{glyph}</span> {isMessages && <strong>{count(event.count)}</strong>} {words}
      </span>
      <a class="feed-topic" href={href(["topic", event.namespace, event.topic])}>
        {event.topic}
      </a>
    </li>
  );
}
