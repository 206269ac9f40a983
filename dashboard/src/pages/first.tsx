/** What an empty queue shows: how to publish the first message. */

import type { JSX } from "preact";
import { Empty, Snippet } from "../parts";
import { href } from "../router";
import { curl, python } from "../snippets";

export function FirstMessage({ topic = "orders", namespace = "default" }: { topic?: string; namespace?: string }): JSX.Element {
  const body = JSON.stringify({ messages: [{ value: { item: "tea" }, key: "ann" }] });
  return (
    <Empty title="No messages yet. Publish the first one:">
      <Snippet label="curl" text={curl("POST", ["topics", topic, "messages"], { namespace: namespace === "default" ? null : namespace }, body)} />
      <Snippet label="Python" text={python(`queue.publish(${JSON.stringify(topic)}, {"item": "tea"}, key="ann")`, namespace)} />
      <p>
        Or <a href={href(["publish"], { topic, namespace })}>publish one here</a>.
      </p>
    </Empty>
  );
}
