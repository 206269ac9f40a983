/** Lines over time (uPlot). Colours come from the style sheet, so that light and dark are one place's concern. */

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import UPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { clock, day, short, span } from "./format";
import type { Stretch } from "./stretch";
import { theme } from "./theme";

export interface Line {
  label: string;
  colour: string; // the name of a variable of the style sheet
  fill?: boolean;
  values: number[];
}

interface Props {
  label: string;
  times: number[];
  lines: Line[];
  height?: number;
  unit?: "count" | "seconds";
  /** What is marked: it stays on its time while the chart moves on. */
  range?: Stretch | null;
  /** Called with the seconds that a drag covered; without it, nothing can be dragged. */
  onBrush?: (from: number, to: number) => void;
}

function variable(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function options(props: Props, width: number, brush: (from: number, to: number) => void): UPlot.Options {
  const text = variable("--quiet");
  const grid = { stroke: variable("--line"), width: 1 };
  const show = props.unit === "seconds" ? span : short;
  const isLong = (props.times.at(-1) ?? 0) - (props.times[0] ?? 0) > 86_400;
  const font = "11px system-ui, sans-serif";
  return {
    width,
    height: props.height ?? 180,
    legend: { show: false },
    cursor: { drag: { x: props.onBrush !== undefined, y: false, setScale: false }, points: { size: 5 } },
    scales: { x: { time: true }, y: { range: (_plot, _low, high) => [0, Math.max(1, high * 1.08)] } },
    axes: [
      {
        stroke: text,
        font,
        grid: { show: false },
        ticks: { ...grid, size: 4 },
        size: 26,
        values: (_plot, ticks) => ticks.map((at) => (isLong ? `${day(at).slice(5)} ${clock(at).slice(0, 5)}` : clock(at))),
        space: isLong ? 110 : 90,
      },
      { stroke: text, font, grid, ticks: { show: false }, size: 52, values: (_plot, ticks) => ticks.map((value) => show(value)) },
    ],
    series: [
      {},
      ...props.lines.map((line) => ({
        label: line.label,
        stroke: variable(line.colour),
        width: 1.5,
        points: { show: false },
        ...(line.fill ? { fill: variable(`${line.colour}-fill`) || variable(line.colour) } : {}),
      })),
    ],
    hooks: {
      setSelect: [
        (plot) => {
          if (plot.select.width > 3) brush(plot.posToVal(plot.select.left, "x"), plot.posToVal(plot.select.left + plot.select.width, "x"));
        },
      ],
    },
  };
}

function mark(plot: UPlot, range: Stretch | null | undefined): void {
  const { clientWidth: width, clientHeight: height } = plot.over;
  const place = (at: number): number => Math.max(0, Math.min(width, plot.valToPos(at, "x")));
  const [left, right] = range ? [place(range.from), place(range.to)] : [0, 0];
  plot.setSelect({ left, top: 0, width: right - left, height: range ? height : 0 }, false);
}

export function Chart(props: Props): JSX.Element {
  const frame = useRef<HTMLDivElement>(null);
  const plot = useRef<UPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const drawn = useRef<number[] | null>(null);
  const isDragged = useRef(false);
  const shape = props.lines.map((line) => line.label + line.colour).join();
  const scheme = theme.value;

  useEffect(() => {
    const home = frame.current;
    if (home === null) return;
    const data = (): UPlot.AlignedData => [latest.current.times, ...latest.current.lines.map((line) => line.values)];
    const made = new UPlot(
      options(latest.current, home.clientWidth, (from, to) => latest.current.onBrush?.(from, to)),
      data(),
      home,
    );
    plot.current = made;
    drawn.current = latest.current.times;
    const drag = (event: MouseEvent): void => {
      isDragged.current = event.type === "mousedown";
    };
    made.over.addEventListener("mousedown", drag);
    document.addEventListener("mouseup", drag);
    const watcher = new ResizeObserver(() => made.setSize({ width: home.clientWidth, height: latest.current.height ?? 180 }));
    watcher.observe(home);
    return () => {
      document.removeEventListener("mouseup", drag);
      watcher.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape, scheme]);

  useEffect(() => {
    const shown = plot.current;
    if (shown === null) return;
    if (drawn.current !== props.times) shown.setData([props.times, ...props.lines.map((line) => line.values)]);
    drawn.current = props.times;
    if (props.onBrush && !isDragged.current) mark(shown, props.range);
  }, [props.times, props.lines, props.range?.from, props.range?.to]);

  const last = props.lines.map((line) => `${line.label} ${short(line.values.at(-1) ?? 0)}`).join(", ");
  return (
    <figure class="chart">
      <figcaption>
        <span>{props.label}</span>
        <ul class="chart-key">
          {props.lines.map((line) => (
            <li key={line.label}>
              <span class={`swatch c${line.colour}`} aria-hidden="true" /> {line.label}
            </li>
          ))}
        </ul>
      </figcaption>
      <div ref={frame} class="plot" role="img" aria-label={`${props.label}; now: ${last}`} />
    </figure>
  );
}
