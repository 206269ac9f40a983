/** ⌘K: every page, and any topic by a part of its name. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { signal } from "@preact/signals";
import { call, hasPipelines } from "./api";
import { useData } from "./data";
import { Modal } from "./dialog";
import { href, ID } from "./router";
import type { OverviewAnswer } from "./types";

export const isPaletteOpen = signal(false);

interface Page {
  name: string;
  path: string[];
}

const PAGES: readonly Page[] = [
  { name: "Overview", path: [] },
  { name: "Topics", path: ["topics"] },
  { name: "Dead letters", path: ["dead"] },
  { name: "Delayed", path: ["delayed"] },
  { name: "Consumers", path: ["consumers"] },
  { name: "Publish", path: ["publish"] },
  { name: "History", path: ["history"] },
  { name: "Pipelines", path: ["pipelines"] },
  { name: "Settings", path: ["settings"] },
];

/** Those that this server has. */
export function pages(): readonly Page[] {
  return hasPipelines.value ? PAGES : PAGES.filter((page) => page.name !== "Pipelines");
}

interface Target {
  name: string;
  note: string;
  href: string;
}

export function Palette(): JSX.Element | null {
  return isPaletteOpen.value ? <Opened /> : null;
}

function Opened(): JSX.Element {
  const [typed, setTyped] = useState("");
  const [chosen, setChosen] = useState(0);
  const match = typed.trim();
  const topics = useData(`palette ${match}`, (abort) =>
    call<OverviewAnswer>(["overview"], { query: { match, limit: 12, sort: "name" }, signal: abort }),
  );
  const targets: Target[] = [
    ...(ID.test(match) ? [{ name: `Message ${match}`, note: "message", href: href(["message", match]) }] : []),
    ...pages().filter((page) => page.name.toLowerCase().includes(match.toLowerCase())).map((page) => ({
      name: page.name,
      note: "page",
      href: href(page.path),
    })),
    ...(topics.data?.topics ?? []).map((row) => ({
      name: row.name,
      note: `topic of ${row.namespace}`,
      href: href(["topic", row.namespace, row.name]),
    })),
  ];
  useEffect(() => setChosen(0), [match]);
  const close = (): void => {
    isPaletteOpen.value = false;
  };
  const open = (target: Target | undefined): void => {
    if (target === undefined) return;
    close();
    window.location.hash = target.href;
  };
  const press = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      setChosen((old) => (old + step + targets.length) % Math.max(1, targets.length));
    } else if (event.key === "Enter") {
      event.preventDefault();
      open(targets[chosen]);
    }
  };
  return (
    <Modal label="Go to" class="modal palette" onClose={close}>
      <input
        type="text"
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={targets.length > 0 ? `target-${chosen}` : undefined}
        aria-label="Go to a page, a topic or a message id"
        placeholder="page, topic or message id"
        autocomplete="off"
        spellcheck={false}
        value={typed}
        onInput={(event) => setTyped(event.currentTarget.value)}
        onKeyDown={press}
        ref={(input) => input?.focus()}
      />
      <ul id="palette-list" role="listbox" aria-label="Places">
        {targets.map((target, at) => (
          <li
            key={target.href}
            id={`target-${at}`}
            role="option"
            aria-selected={at === chosen}
            onClick={() => open(target)}
          >
            <span>{target.name}</span>
            <span class="quiet">{target.note}</span>
          </li>
        ))}
      </ul>
    </Modal>
  );
}
