/** The frame around all pages: where to go, whether it is live, and which keys do something. */

import type { JSX } from "preact";
import { useEffect, useErrorBoundary, useRef } from "preact/hooks";
import { isLockedOut, loadMe, may, me } from "./api";
import { Dialogs } from "./dialog";
import { connection } from "./live";
import { isPaletteOpen, pages, Palette } from "./palette";
import { Empty } from "./parts";
import { href, place } from "./router";
import { theme, toggleTheme } from "./theme";
import { ConsumersPage } from "./pages/consumers";
import { DeadPage } from "./pages/dead";
import { DelayedPage } from "./pages/delayed";
import { HistoryPage } from "./pages/history";
import { LoginPage } from "./pages/login";
import { MessagePage } from "./pages/message";
import { OverviewPage } from "./pages/overview";
import { PipelinesPage } from "./pages/pipelines";
import { PublishPage } from "./pages/publish";
import { SettingsPage } from "./pages/settings";
import { TopicPage } from "./pages/topic";
import { TopicsPage } from "./pages/topics";

const VIEWS: Record<string, () => JSX.Element> = {
  "": OverviewPage,
  topics: TopicsPage,
  topic: TopicPage,
  message: MessagePage,
  dead: DeadPage,
  delayed: DelayedPage,
  consumers: ConsumersPage,
  publish: PublishPage,
  history: HistoryPage,
  pipelines: PipelinesPage,
  settings: SettingsPage,
};

const RETRY_MS = 3000;

export function App(): JSX.Element {
  useEffect(() => {
    let timer = 0;
    const ask = (): void => {
      loadMe().catch(() => {
        timer = window.setTimeout(ask, RETRY_MS);
      });
    };
    ask();
    return () => window.clearTimeout(timer);
  }, []);
  useEffect(() => {
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
  if (isLockedOut.value)
    return (
      <>
        <LoginPage />
        <Dialogs />
      </>
    );
  return <Frame />;
}

function isTyping(event: KeyboardEvent): boolean {
  return event.target instanceof HTMLElement && event.target.matches("input, textarea, select, [contenteditable]");
}

function press(event: KeyboardEvent): void {
  if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    if (!isLockedOut.value) isPaletteOpen.value = !isPaletteOpen.value;
  } else if (event.key === "/" && !isTyping(event)) {
    const filter = document.getElementById("filter");
    if (filter instanceof HTMLInputElement) {
      event.preventDefault();
      filter.select();
    }
  } else if ((event.key === "ArrowDown" || event.key === "Enter") && event.target instanceof HTMLInputElement && event.target.id === "filter") {
    const grid = document.querySelector<HTMLElement>('[role="grid"]');
    if (grid) {
      event.preventDefault();
      grid.focus();
    }
  }
}

const WORDS = {
  idle: "",
  connecting: "connecting …",
  live: "live",
  lost: "connection lost; trying again",
  paused: "paused",
} as const;

function Frame(): JSX.Element {
  const [first = ""] = place.value.path;
  const View = Object.hasOwn(VIEWS, first) ? (VIEWS[first] ?? OverviewPage) : OverviewPage;
  const parent = first === "topic" || first === "message" ? "topics" : first;
  const state = connection.value;
  const key = first === "topic" || first === "message" ? place.value.path.slice(0, 3).join("/") : first;
  const title = [place.value.path[first === "topic" ? 2 : 0], "Ortoo"];
  document.title = title.filter(Boolean).join(" · ");
  const main = useRef<HTMLElement>(null);
  const shown = useRef(key);
  useEffect(() => {
    // What had the focus went with the page before: keys and screen readers go on with this one.
    if (shown.current !== key && (document.activeElement === null || document.activeElement === document.body)) main.current?.focus();
    shown.current = key;
  }, [key]);
  return (
    <div class="frame">
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <header class="bar">
        <a class="brand" href={href([])}>
          <span aria-hidden="true">○◐●</span> ortoo
        </a>
        <nav aria-label="Pages" class="pages">
          {pages().map((page) => (
            <a key={page.name} href={href(page.path)} aria-current={(page.path[0] ?? "") === parent ? "page" : undefined}>
              {page.name}
            </a>
          ))}
        </nav>
        <div class="tools">
          <button type="button" class="quiet go" onClick={() => (isPaletteOpen.value = true)}>
            Go to <kbd>⌘K</kbd>
          </button>
          <button type="button" class="quiet" aria-label={`Use ${theme.value === "dark" ? "light" : "dark"} colours`} onClick={toggleTheme}>
            <span aria-hidden="true">{theme.value === "dark" ? "☀" : "☾"}</span>
          </button>
          <span class={`live ${state}`} role="status">
            {state !== "idle" && <span aria-hidden="true">{state === "live" ? "●" : "○"}</span>} {WORDS[state]}
          </span>
          {me.value && !may("write") && <span class="readonly">read-only</span>}
        </div>
      </header>
      <main id="main" tabIndex={-1} ref={main}>
        <Guarded key={key} view={View} />
      </main>
      <Palette />
      <Dialogs />
    </div>
  );
}

/** A page that breaks takes nothing else with it. */
function Guarded({ view: View }: { view: () => JSX.Element }): JSX.Element {
  const [error, again] = useErrorBoundary() as [Error | undefined, () => void];
  if (error === undefined) return <View />;
  return (
    <Empty title="This page could not be displayed">
      <p class="failure">{error.message}</p>
      <p>
        <button type="button" onClick={again}>
          Try again
        </button>
      </p>
    </Empty>
  );
}

function skip(event: Event): void {
  event.preventDefault(); // the part behind # is the page
  document.getElementById("main")?.focus();
}
