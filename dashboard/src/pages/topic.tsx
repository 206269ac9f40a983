/** One topic: its log as strips, its lag with replay, and tabs for all else. */

import type { JSX } from "preact";
import { call, Problem } from "../api";
import { useData, type Loaded } from "../data";
import { bytes, count } from "../format";
import { Legend, Tally, Time } from "../marks";
import { Empty, Failure, Heading, Loading, Tabs } from "../parts";
import { href, place } from "../router";
import type { TopicView } from "../types";
import { DeadTab } from "./dead";
import { DelayedCalendar } from "./delayed";
import { GroupsTab } from "./groups";
import { Replay } from "./replay";
import { SettingsTab } from "./topic-settings";
import { Strips } from "./strips";
import { MessagesTab } from "./messages";
import { TailTab } from "./tail";

export const TABS = ["messages", "groups", "partitions", "delayed", "dead", "settings", "tail"] as const;
export type TabName = (typeof TABS)[number];

export interface TabProps {
  topic: TopicView;
  reload: () => void;
}

export function TopicPage(): JSX.Element {
  const [, namespace = "default", name = "", tab = "messages"] = place.value.path;
  const topic = useData(
    `${namespace}\n${name}`,
    (signal) => call<TopicView>(["topics", name], { query: { namespace }, signal }),
    3,
  );
  const current = (TABS as readonly string[]).includes(tab) ? (tab as TabName) : "messages";
  return (
    <>
      <Heading title={name || "No topic"}>
        <a class="button" href={href(["publish"], { namespace, topic: name })}>
          Publish
        </a>
      </Heading>
      <Failure error={topic.error} />
      <Loading isLoading={topic.isLoading} />
      {topic.data && <Body topic={topic.data} loaded={topic} current={current} />}
      {topic.error instanceof Problem && [403, 404].includes(topic.error.status) && !topic.data && (
        <Empty title="Topic not found">
          <p>
            It may have been deleted, or your token does not allow you to see it. <a href={href(["topics"])}>All topics</a>
          </p>
        </Empty>
      )}
    </>
  );
}

function Body({ topic, loaded, current }: { topic: TopicView; loaded: Loaded<TopicView>; current: TabName }): JSX.Element {
  const props: TabProps = { topic, reload: loaded.reload };
  const dead = topic.groups.reduce((sum, group) => sum + group.dead, 0);
  const tabs = TABS.map((name) => ({
    name,
    href: href(["topic", topic.namespace, topic.name, name]),
    note: name === "dead" && dead > 0 ? <Tally state="dead" value={dead} /> : undefined,
  }));
  return (
    <>
      <p class="facts">
        <span>namespace {topic.namespace}</span>
        <span>
          <strong>{count(topic.messages)}</strong> messages stored, {bytes(topic.bytes)}
        </span>
        <span>{count(topic.partitions.length)} partitions</span>
        <span>order by {String(topic.config["ordering"])}</span>
        <span>
          since <Time at={topic.created} />
        </span>
      </p>
      <Strips topic={topic} isShort={current !== "partitions"} />
      {current !== "partitions" && topic.groups.length > 0 && <Replay {...props} />}
      <Tabs label="Views of this topic" tabs={tabs} current={current} />
      {current === "messages" && <MessagesTab {...props} />}
      {current === "groups" && <GroupsTab {...props} />}
      {current === "partitions" && <PartitionsTab {...props} />}
      {current === "delayed" && <DelayedCalendar namespace={topic.namespace} topic={topic.name} />}
      {current === "dead" && <DeadTab namespace={topic.namespace} topic={topic.name} />}
      {current === "settings" && <SettingsTab {...props} />}
      {current === "tail" && <TailTab {...props} />}
    </>
  );
}

function PartitionsTab({ topic }: TabProps): JSX.Element {
  return (
    <>
      <Legend />
      <div class="scroll" tabIndex={0} role="region" aria-label="Partitions">
        <table>
          <thead>
            <tr>
              <th scope="col">partition</th>
              <th scope="col" class="num">
                first offset
              </th>
              <th scope="col" class="num">
                next offset
              </th>
              <th scope="col" class="num">
                messages
              </th>
              <th scope="col" class="num">
                bytes
              </th>
              {topic.groups.map((group) => (
                <th key={group.name} scope="col" class="num">
                  {group.name} is at
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {topic.partitions.map((each) => (
              <tr key={each.partition}>
                <th scope="row">p{each.partition}</th>
                <td class="num">{count(each.start)}</td>
                <td class="num">{count(each.end)}</td>
                <td class="num">{count(each.messages)}</td>
                <td class="num">{bytes(each.bytes)}</td>
                {topic.groups.map((group) => (
                  <td key={group.name} class="num">
                    {count(group.cursors[each.partition])}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
