/** The messages that come due within a stretch of time, looked for among those that are delayed. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { call, callExactly } from "../api";
import { useData } from "../data";
import { moment, plural } from "../format";
import { Empty, Failure, Loading } from "../parts";
import { href, setQuery } from "../router";
import type { Stretch } from "../stretch";
import type { MessagePage, MessageView, TopicView } from "../types";
import { PREVIEW_BYTES } from "../values";
import { Foot, MessageTable } from "./messages";

const SHOWN = 50;
const AT_ONCE = 200;
const PAGES = 10; // looked through before somebody is asked whether to go on

interface Props {
  namespace: string;
  topic: string;
  stretch: Stretch;
}

async function lookFor({ namespace, topic, stretch }: Props, start: string | null, signal: AbortSignal): Promise<MessagePage | null> {
  const { groups } = await call<TopicView>(["topics", topic], { query: { namespace }, signal });
  const [group] = groups;
  if (group === undefined) return null; // only lists of a group tell when messages are due
  const path = ["topics", topic, "groups", group.name, "messages"];
  const found: MessageView[] = [];
  let next: string | null = start;
  let scanned = 0;
  for (let page = 0; page < PAGES && found.length < SHOWN; page += 1) {
    const some: MessagePage = await callExactly<MessagePage>(path, { query: { namespace, state: "delayed", limit: AT_ONCE, next, value_bytes: PREVIEW_BYTES }, signal });
    scanned += some.messages.length;
    found.push(...some.messages.filter(({ due }) => due !== undefined && due >= stretch.from && due < stretch.to));
    next = some.next ?? null;
    if (next === null) break;
  }
  return { messages: found.sort((one, other) => (one.due ?? 0) - (other.due ?? 0)), next, scanned, complete: next === null };
}

export function DueList(props: Props): JSX.Element {
  const { namespace, topic, stretch } = props;
  const [pages, setPages] = useState<string[]>([]);
  const start = pages.at(-1) ?? null;
  const found = useData(JSON.stringify(["due", namespace, topic, stretch, start]), (signal) => lookFor(props, start, signal), 10);
  return (
    <section aria-labelledby="due">
      <div class="row">
        <h2 id="due">
          Due from {moment(stretch.from)} to {moment(stretch.to)}
        </h2>
        <button type="button" onClick={() => setQuery({ due_from: null, due_to: null })}>
          Close
        </button>
      </div>
      <Failure error={found.error} />
      <Loading isLoading={found.isLoading} />
      {!found.isLoading && !found.error && found.data === null && (
        <Empty title="This topic has no groups yet">
          <p>
            Due times of messages are shown once a group reads the topic.{" "}
            <a href={href(["topic", namespace, topic, "messages"])}>All its messages</a>
          </p>
        </Empty>
      )}
      {found.data && found.data.messages.length > 0 && <MessageTable messages={found.data.messages} />}
      {found.data && found.data.messages.length === 0 && (
        <Empty title={`None among the ${plural(found.data.scanned ?? 0, "message")} examined`} />
      )}
      {found.data && <Foot page={found.data} pages={pages} setPages={setPages} />}
    </section>
  );
}
