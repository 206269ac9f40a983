/** The groups of a topic: how far each one is, and what can be done about it. */

import type { JSX } from "preact";
import { call } from "../api";
import { ask, toast } from "../dialog";
import { count, moment, plural } from "../format";
import { P95 } from "../latency";
import { Tally } from "../marks";
import { Action, Elsewhere, Empty } from "../parts";
import { href } from "../router";
import { curl, python, text } from "../snippets";
import type { GroupInfo, SeekPreview } from "../types";
import type { TabProps } from "./topic";

export function GroupsTab({ topic, reload }: TabProps): JSX.Element {
  if (topic.groups.length === 0)
    return (
      <Empty title="This topic has no groups yet. A group is created by its first lease:">
        <Elsewhere
          curl={curl("POST", ["topics", topic.name, "groups", "billing", "lease"], { namespace: topic.namespace }, '{"max_messages": 10}')}
          python={python(`print(queue.lease(${text(topic.name)}, group="billing"))`, topic.namespace)}
        />
      </Empty>
    );
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Groups">
      <table>
        <thead>
          <tr>
            <th scope="col">group</th>
            <th scope="col" class="num">
              backlog
            </th>
            <th scope="col">states</th>
            <th scope="col" class="num">
              consumers
            </th>
            <th scope="col" class="num">
              to deliver, p95
            </th>
            <th scope="col" class="num">
              to ack, p95
            </th>
            <th scope="col">actions</th>
          </tr>
        </thead>
        <tbody>
          {topic.groups.map((group) => (
            <Row key={group.name} namespace={topic.namespace} topic={topic.name} group={group} reload={reload} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface Does {
  path: string[];
  body: Record<string, unknown>;
  same: JSX.Element;
}

interface RowProps {
  namespace: string;
  topic: string;
  group: GroupInfo;
  reload: () => void;
}

function isPaused(group: GroupInfo): boolean {
  return group.paused ?? false;
}

function Row({ namespace, topic, group, reload }: RowProps): JSX.Element {
  const path = ["topics", topic, "groups", group.name];
  const query = { namespace };
  const does = (what: string, body: Record<string, unknown>, call: string): Does => ({
    body,
    path: [...path, what],
    same: <Elsewhere curl={curl("POST", [...path, what], query, JSON.stringify(body))} python={python(call, namespace)} />,
  });
  const names = `${text(topic)}, ${text(group.name)}`;
  const act = async ({ path: where, body }: Does, done: string): Promise<void> => {
    await call(where, { query, body });
    toast(done);
    reload();
  };
  const move = async (to: "start" | "end"): Promise<void> => {
    const found = await call<SeekPreview>([...path, "seek"], { query, body: { to, dry_run: true } });
    const [title, told, verb] =
      to === "start"
        ? [`Deliver everything again to ${group.name}?`, `${plural(found.messages, "message")} will be delivered to it, oldest first.`, `Replay ${count(found.messages)}`]
        : [`Skip everything for ${group.name}?`, `${plural(found.skipped, "message")} that it has not settled will never be delivered to it.`, `Skip ${count(found.skipped)}`];
    const seek = does("seek", { to }, `queue.seek(${names}, ${text(to)})`);
    if (await ask({ title, told, verb, isDangerous: to === "end", same: seek.same })) await act(seek, `${group.name} was moved to the ${to}`);
  };
  const remove = async (): Promise<void> => {
    const told = `Its position in ${topic} and its backlog of ${plural(group.backlog, "message")} will be lost. The messages stay available to other groups.`;
    const same = <Elsewhere curl={curl("DELETE", path, query)} python={python(`queue.delete_group(${names})`, namespace)} />;
    if (!(await ask({ title: `Delete the group ${group.name}?`, told, verb: "Delete the group", same }))) return;
    await call(path, { method: "DELETE", query });
    toast(`the group ${group.name} was deleted`);
    reload();
  };
  const pause = async (): Promise<void> => {
    const reason = "from the dashboard";
    const paused = does("pause", { reason }, `queue.pause_group(${names}, reason=${text(reason)})`);
    const told = "Nothing is delivered to it until it is resumed. Messages that are leased now can still be settled.";
    if (await ask({ title: `Pause ${group.name}?`, told, verb: "Pause", isDangerous: false, same: paused.same })) await act(paused, `${group.name} is paused`);
  };
  const resumed = does("resume", {}, `queue.resume_group(${names})`);
  return (
    <tr>
      <th scope="row" class="name">
        <a href={href(["consumers"], { namespace, topic, group: group.name })}>{group.name}</a>
        {isPaused(group) && (
          <div class="note">
            ‖ paused{group.paused_until ? ` until ${moment(group.paused_until)}` : ""}
            {group.reason ? `: ${group.reason}` : ""}
          </div>
        )}
      </th>
      <td class="num">{count(group.backlog)}</td>
      <td class="tallies">
        <Tally state="ready" value={group.ready} /> <Tally state="leased" value={group.leased} />{" "}
        <Tally state="delayed" value={group.delayed} /> <Tally state="blocked" value={group.blocked} />{" "}
        <Tally state="dead" value={group.dead} />
      </td>
      <td class="num">{count(Object.keys(group.consumers).length)}</td>
      <td class="num">
        <P95 what="published → delivered" latency={group.delivery_latency} />
      </td>
      <td class="num">
        <P95 what="delivered → acknowledged" latency={group.ack_latency} />
      </td>
      <td>
        <div class="buttons">
        {isPaused(group) ? (
          <Action kind="primary" onClick={() => act(resumed, `${group.name} goes on`)}>
            Resume
          </Action>
        ) : (
          <Action onClick={pause}>Pause</Action>
        )}
        <Action onClick={() => move("start")}>To the start</Action>
        <Action onClick={() => move("end")}>To the end</Action>
        <Action kind="danger" onClick={remove}>
          Delete
        </Action>
        </div>
        {isPaused(group) && resumed.same}
      </td>
    </tr>
  );
}
