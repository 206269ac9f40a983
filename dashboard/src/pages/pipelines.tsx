/** Jobs of the pipeline as they last reported: whether each still runs, its last batch, how far behind it is, and what went wrong. */

import type { JSX } from "preact";
import { call } from "../api";
import { useData } from "../data";
import { ask, toast } from "../dialog";
import { ago, count, plural, short, span } from "../format";
import { Time } from "../marks";
import { Action, Elsewhere, Empty, Failure, Heading, Loading, Snippet } from "../parts";
import { curl, python } from "../snippets";
import type { Pipeline, PipelineRun, PipelinesAnswer, RunState } from "../types";

const LIMIT = 200;

export function PipelinesPage(): JSX.Element {
  const found = useData("pipelines", (signal) => call<PipelinesAnswer>(["pipelines"], { query: { limit: LIMIT }, signal }), 3);
  const jobs = found.data?.pipelines ?? [];
  const total = found.data?.total ?? 0;
  return (
    <>
      <Heading title="Pipelines" />
      <Failure error={found.error} />
      <Loading isLoading={found.isLoading} />
      {found.data && jobs.length === 0 && <NoJobs />}
      {jobs.length > 0 && (
        <>
          <Jobs jobs={jobs.toSorted(worstFirst)} reload={found.reload} />
          {total > jobs.length && <p class="quiet">and {plural(total - jobs.length, "other job")}</p>}
          <Elsewhere curl={curl("GET", ["pipelines"])} python={python("print(queue.pipelines())")} />
        </>
      )}
    </>
  );
}

function NoJobs(): JSX.Element {
  return (
    <Empty title="No job has reported yet">
      <p>Jobs that archive, analyze or transform topics report here, while they run and when they end:</p>
      <Snippet label="commands" text={COMMANDS} />
    </Empty>
  );
}

const COMMANDS = ["ortoo pipeline archive --to ./lake", "ortoo pipeline analyze --lake ./lake"].join("\n");

const MARKS: Partial<Record<string, [glyph: string, kind: string]>> = {
  failed: ["✕", "dead"],
  stalled: ["▲", "blocked"],
  gone: ["▲", "blocked"],
  running: ["◐", "leased"],
  stopped: ["○", "done"],
  done: ["○", "done"],
};
const ORDER = Object.keys(MARKS);

export function worstFirst(one: Pipeline, other: Pipeline): number {
  return ORDER.indexOf(one.state) - ORDER.indexOf(other.state) || other.reported - one.reported;
}

function JobState({ state }: { state: RunState }): JSX.Element {
  const [glyph, kind] = MARKS[state] ?? ["?", "done"];
  return (
    <span class={`state s-${kind}`}>
      <span aria-hidden="true">{glyph}</span> {state}
    </span>
  );
}

function Jobs({ jobs, reload }: { jobs: Pipeline[]; reload: () => void }): JSX.Element {
  return (
    <ul class="jobs">
      {jobs.map((job) => (
        <Job key={JSON.stringify([job.namespace, job.job, job.reporter])} job={job} reload={reload} />
      ))}
    </ul>
  );
}

function Job({ job, reload }: { job: Pipeline; reload: () => void }): JSX.Element {
  const { namespace, reporter } = job;
  const forget = async (): Promise<void> => {
    const told = `Its ${plural(job.recent.length + 1, "run")} will no longer be shown. Its output stays, and the job reappears when it reports again.`;
    const same = curl("DELETE", ["pipelines", job.job], { namespace, reporter });
    const asked = { title: `Forget the job ${job.job}?`, told, verb: "Forget 1 job", same: <Snippet label="curl" text={same} /> };
    if (!(await ask(asked))) return;
    await call(["pipelines", job.job], { method: "DELETE", query: { namespace, reporter } });
    toast(`${job.job} is forgotten until it reports again`);
    reload();
  };
  const batch = job.last_batch;
  return (
    <li>
      <div class="job-head">
        <h2>{job.job}</h2>
        <JobState state={job.state} />
        <span class="quiet">
          {job.kind} in {namespace}
          {reporter !== null && ` by ${reporter}`}
        </span>
        <Action scope="admin" onClick={forget}>
          Forget …
        </Action>
      </div>
      <p class="facts">
        {job.reads !== null && <span>reads {job.reads}</span>}
        {job.writes !== null && <span>writes {job.writes}</span>}
        {job.host !== null && <span>on {job.host}</span>}
        <span>
          started <Time at={job.began} />, {job.ended === null ? "for" : "took"} {span(job.seconds)}
        </span>
        <span title={new Date(job.reported * 1000).toISOString()}>reported {ago(job.reported)}</span>
      </p>
      <dl class="totals job-figures">
        <Figure label="lag" text={job.lag === null ? "–" : count(job.lag)} />
        <Figure label="rows in" text={short(job.rows_in)} />
        <Figure label="rows out" text={short(job.rows_out)} />
        <Figure label="batches" text={count(job.batches)} />
        <Figure label="last batch" text={batch === null ? "–" : `${short(batch.rows_in)} in ${span(batch.seconds)}`} />
      </dl>
      {batch !== null && (
        <p class="quiet">
          batch {count(batch.number)} of {batch.stream} at <Time at={batch.at} />
        </p>
      )}
      {job.error !== null && <p class="failure mono">{job.error}</p>}
      {job.warning !== null && (
        <p class="note">
          {plural(job.warnings, "warning")}, the last: <span class="mono">{job.warning}</span>
        </p>
      )}
      {job.recent.length > 0 && <Recent runs={job.recent} job={job.job} />}
    </li>
  );
}

function Figure({ label, text }: { label: string; text: string }): JSX.Element {
  return (
    <div>
      <dt>{label}</dt>
      <dd>
        <strong>{text}</strong>
      </dd>
    </div>
  );
}

function Recent({ runs, job }: { runs: PipelineRun[]; job: string }): JSX.Element {
  return (
    <details>
      <summary>{plural(runs.length, "run")} before this one</summary>
      <div class="scroll" tabIndex={0} role="region" aria-label={`Earlier runs of ${job}`}>
        <table>
          <thead>
            <tr>
              <th scope="col">began</th>
              <th scope="col">ended</th>
              <th scope="col">how</th>
              {["batches", "rows in", "rows out"].map((name) => (
                <th key={name} scope="col" class="num">
                  {name}
                </th>
              ))}
              <th scope="col">error</th>
            </tr>
          </thead>
          <tbody>
            {runs.map((run) => (
              <tr key={run.run}>
                <td class="when">
                  <Time at={run.began} />
                </td>
                <td class="when">
                  <Time at={run.ended} />
                </td>
                <td>
                  <JobState state={run.state} />
                </td>
                <td class="num">{count(run.batches)}</td>
                <td class="num">{short(run.rows_in)}</td>
                <td class="num">{short(run.rows_out)}</td>
                <td class="mono name">{run.error ?? ""}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}
