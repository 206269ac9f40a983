/** Small pieces that pages share. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { me, may, Problem } from "./api";
import { isRepeated, toast } from "./dialog";
import { count } from "./format";

export function Heading({ title, children }: { title: ComponentChildren; children?: ComponentChildren }): JSX.Element {
  return (
    <header class="heading">
      <h1>{title}</h1>
      <div class="actions">{children}</div>
    </header>
  );
}

/** A view that has nothing to show says what would be here, and how to get it. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children}
    </div>
  );
}

export function Failure({ error }: { error: Error | null }): JSX.Element | null {
  if (error === null || error.name === "AbortError") return null;
  const code = error instanceof Problem && error.status ? ` (${error.status} ${error.code})` : "";
  return (
    <p class="failure" role="alert">
      {error.message}
      {code}
    </p>
  );
}

export function Loading({ isLoading }: { isLoading: boolean }): JSX.Element | null {
  return isLoading ? (
    <p class="loading" role="status">
      Loading …
    </p>
  ) : null;
}

const SHOWN = 20_000; // characters; to lay out a million takes seconds

/** Text to copy: all of it, of which the beginning is shown. */
export function Snippet({ text, label }: { text: string; label: string }): JSX.Element {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? text : text.slice(0, SHOWN);
  const copy = (): void => {
    void navigator.clipboard.writeText(text).then(
      () => toast(`${label} copied`),
      () => toast("the browser did not allow that; select the text instead"),
    );
  };
  return (
    <div class="snippet">
      <div class="snippet-head">
        <span>{label}</span>
        <button type="button" class="quiet" onClick={copy} aria-label={`Copy ${label}`}>
          copy
        </button>
      </div>
      <pre tabIndex={0} aria-label={label}>
        {shown}
      </pre>
      {shown.length < text.length && (
        <button type="button" class="quiet" onClick={() => setWhole(true)}>
          … {count(text.length - shown.length)} more characters
        </button>
      )}
    </div>
  );
}

/** How to do the same elsewhere. */
export function Elsewhere({ curl, python }: { curl: string; python: string }): JSX.Element {
  return (
    <details class="elsewhere">
      <summary>the same with curl and Python</summary>
      <Snippet label="curl" text={curl} />
      <Snippet label="Python" text={python} />
    </details>
  );
}

interface ActionProps {
  scope?: "read" | "write" | "admin";
  kind?: "plain" | "danger" | "primary";
  disabled?: boolean;
  onClick: () => unknown;
  children: ComponentChildren;
}

/** A button for what changes something. Whoever may not sees it, and why it does nothing. */
export function Action({ scope = "write", kind = "plain", disabled = false, onClick, children }: ActionProps): JSX.Element {
  const [isBusy, setBusy] = useState(false);
  const busy = useRef(false); // at once, where the state is known only after it was drawn
  const isAllowed = may(scope);
  const press = async (event: MouseEvent): Promise<void> => {
    if (busy.current || isRepeated(event)) return;
    busy.current = true;
    setBusy(true);
    try {
      await onClick();
    } catch (error) {
      toast((error as Error).message, true);
    } finally {
      busy.current = false;
      setBusy(false);
    }
  };
  const why = me.value === null ? "your token's permissions are not known yet" : `your token lacks the scope ${scope}`;
  return (
    <button
      type="button"
      class={kind}
      disabled={disabled || !isAllowed}
      aria-busy={isBusy /* not disabled: that would take the focus away */}
      title={isAllowed ? undefined : why}
      onClick={press}
    >
      {children}
    </button>
  );
}

export function Field(props: {
  label: string;
  value: string;
  onInput: (value: string) => void;
  placeholder?: string;
  size?: number;
}): JSX.Element {
  const { label, onInput, ...rest } = props;
  return (
    <label class="field">
      <span>{label}</span>
      <input
        {...rest}
        type="text"
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
    </label>
  );
}

export function Choice<T extends string>(props: {
  label: string;
  value: T;
  options: readonly (T | { value: T; label: string })[];
  onChange: (value: T) => void;
}): JSX.Element {
  return (
    <label class="field">
      <span>{props.label}</span>
      <select value={props.value} onChange={(event) => props.onChange(event.currentTarget.value as T)}>
        {props.options.map((option) => {
          const { value, label } = typeof option === "string" ? { value: option, label: option } : option;
          return (
            <option key={value} value={value} selected={value === props.value}>
              {label}
            </option>
          );
        })}
      </select>
    </label>
  );
}

export interface Tab {
  name: string;
  href: string;
  note?: ComponentChildren;
}

export function Tabs({ label, tabs, current }: { label: string; tabs: Tab[]; current: string }): JSX.Element {
  const line = useRef<HTMLElement>(null);
  useEffect(() => {
    // On a phone not all of them are in sight; the current one is.
    const tab = line.current?.querySelector<HTMLElement>("[aria-current]");
    if (line.current && tab) line.current.scrollLeft = tab.offsetLeft - line.current.offsetLeft - (line.current.clientWidth - tab.offsetWidth) / 2;
  }, [current]);
  return (
    <nav class="tabs" aria-label={label} ref={line}>
      {tabs.map((tab) => (
        <a key={tab.name} href={tab.href} aria-current={tab.name === current ? "page" : undefined}>
          {tab.name}
          {tab.note}
        </a>
      ))}
    </nav>
  );
}
