/** The jobs that run beside the server, archives, flows and analytics: when each ran last, and how it went. */

import type { JSX } from "preact";
import { call } from "../api";
import { useData } from "../data";
import { count, span } from "../format";
import { Time } from "../marks";
import { Empty, Failure, Heading, Loading, Snippet } from "../parts";
import type { Pipeline, PipelineRun } from "../types";

export function PipelinesPage(): JSX.Element {
  const found = useData("pipelines", (signal) => call<{ pipelines: Pipeline[] }>(["pipelines"], { signal }), 10);
  const pipelines = found.data?.pipelines ?? [];
  return (
    <>
      <Heading title="Pipelines" />
      <Failure error={found.error} />
      <Loading isLoading={found.isLoading} />
      {found.data && pipelines.length === 0 && (
        <Empty title="No pipeline has run yet">
          <p>Jobs tell the server of each run. One that keeps topics and their history as Parquet files:</p>
          <Snippet label="command" text="ortoo pipeline archive --to ./lake --once" />
        </Empty>
      )}
      {pipelines.map((pipeline) => (
        <section key={`${pipeline.kind} ${pipeline.name}`} aria-label={pipeline.name}>
          <h2>
            {pipeline.name} <span class="quiet">{pipeline.kind}</span>
          </h2>
          <Runs runs={pipeline.runs.length > 0 ? pipeline.runs : pipeline.last_run ? [pipeline.last_run] : []} />
        </section>
      ))}
    </>
  );
}

function Runs({ runs }: { runs: PipelineRun[] }): JSX.Element {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Runs">
      <table>
        <thead>
          <tr>
            <th scope="col">started</th>
            <th scope="col">status</th>
            <th scope="col" class="num">
              took
            </th>
            <th scope="col" class="num">
              batch
            </th>
            <th scope="col" class="num">
              rows
            </th>
            <th scope="col" class="num">
              lag
            </th>
            <th scope="col">error</th>
          </tr>
        </thead>
        <tbody>
          {runs.map((run) => (
            <tr key={run.started}>
              <td class="when">
                <Time at={run.started} />
              </td>
              <td>
                <span class={run.error ? "state s-dead" : run.ended === null ? "state s-leased" : "state s-done"}>
                  {run.error ? "✕" : run.ended === null ? "◐" : "○"} {run.status}
                </span>
              </td>
              <td class="num">{run.ended === null ? "–" : span(run.ended - run.started)}</td>
              <td class="num">{count(run.batch)}</td>
              <td class="num">{count(run.rows)}</td>
              <td class="num">{count(run.lag)}</td>
              <td class="mono">{run.error ?? ""}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
