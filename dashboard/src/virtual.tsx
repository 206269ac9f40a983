/** A list that draws only the rows in sight, however many there are; ↑ and ↓ move, ⏎ opens. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

export interface Range {
  start: number;
  end: number;
}

const OVERSCAN = 8;
const HEAD = 28; // as in the style sheet; it stays on top of the rows

export function visible(scroll: number, height: number, row: number, total: number): Range {
  const start = Math.max(0, Math.floor(scroll / row) - OVERSCAN);
  return { start, end: Math.min(total, Math.ceil((scroll + height) / row) + OVERSCAN) };
}

/** Rows that were opened, by list: whoever comes back is there again. */
const opened = new Map<string, number>();

interface Props {
  /** Its name among the lists. */
  name: string;
  label: string;
  total: number;
  rowHeight: number;
  head: ComponentChildren;
  render: (index: number, isSelected: boolean) => ComponentChildren;
  onRange?: (range: Range) => void;
  onOpen: (index: number) => void;
  /** A key with the row that is selected. */
  onKey?: (key: string, index: number) => void;
}

export function VirtualTable({ name, label, total, rowHeight, head, render, onRange, onOpen, onKey }: Props): JSX.Element {
  const frame = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ scroll: 0, height: 600 });
  const [selected, setSelected] = useState(-1);
  const range = visible(view.scroll, view.height, rowHeight, total);

  useEffect(() => onRange?.(range), [range.start, range.end]);
  useEffect(() => {
    const index = opened.get(name);
    opened.delete(name);
    const isFree = document.activeElement === null || document.activeElement.matches("body, main");
    if (index === undefined || index >= total || !isFree) return;
    frame.current?.focus({ preventScroll: true });
    move(index);
  }, []);
  useEffect(() => {
    const element = frame.current;
    if (element === null) return;
    const measure = (): void => setView({ scroll: element.scrollTop, height: element.clientHeight });
    measure();
    const watcher = new ResizeObserver(measure);
    watcher.observe(element);
    return () => watcher.disconnect();
  }, []);

  const move = (to: number): void => {
    const index = Math.max(0, Math.min(total - 1, to));
    setSelected(index);
    const element = frame.current;
    if (element === null) return;
    const top = index * rowHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    else element.scrollTop = Math.max(element.scrollTop, HEAD + top + rowHeight - element.clientHeight);
  };
  const press = (event: KeyboardEvent): void => {
    const page = Math.max(1, Math.floor(view.height / rowHeight) - 2);
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -total, End: total };
    const step = steps[event.key];
    if (step !== undefined) {
      event.preventDefault();
      move(selected + step);
    } else if (event.metaKey || event.ctrlKey || event.altKey || selected < 0 || selected >= total) return;
    else if (event.key === "Enter") {
      opened.set(name, selected);
      onOpen(selected);
    }
    else onKey?.(event.key, selected);
  };

  const rows: JSX.Element[] = [];
  for (let index = range.start; index < range.end; index += 1) {
    rows.push(
      <div
        key={index}
        role="row"
        aria-rowindex={index + 2}
        aria-selected={index === selected}
        class={index === selected ? "vrow selected" : "vrow"}
        style={{ top: `${index * rowHeight}px`, height: `${rowHeight}px` }}
        onClick={(event) => {
          if (!(event.target instanceof HTMLAnchorElement)) onOpen(index);
        }}
      >
        {render(index, index === selected)}
      </div>,
    );
  }
  return (
    <div
      ref={frame}
      role="grid"
      aria-label={label}
      aria-rowcount={total + 1}
      class="vtable"
      tabIndex={0}
      onKeyDown={press}
      onScroll={(event) => setView({ scroll: event.currentTarget.scrollTop, height: event.currentTarget.clientHeight })}
    >
      <div role="rowgroup" class="vtop">
        <div role="row" class="vhead">
          {head}
        </div>
      </div>
      <div role="rowgroup" class="vspace" style={{ height: `${total * rowHeight}px` }}>
        {rows}
      </div>
    </div>
  );
}
