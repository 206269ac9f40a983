/** What the server answers, as far as the dashboard looks at it. */

export type State = "ready" | "leased" | "delayed" | "blocked" | "done" | "dead";

/** Of the last one or two minutes. */
export interface Latency {
  count: number;
  p50_ms: number;
  p95_ms: number;
  p99_ms: number;
}

export interface ServerMemory {
  resident_bytes: number;
  requests_bytes: number;
  requests_bytes_max: number;
  parked_bytes: number;
}

export interface Totals {
  in: number;
  out: number;
  acked: number;
  failed: number;
  dead_lettered: number;
  backlog: number;
  leased: number;
  delayed: number;
  dead: number;
  oldest_seconds: number;
  topics: number;
  connections: number;
  delivery_latency: Latency | null;
  ack_latency: Latency | null;
}

export interface TopicRow {
  namespace: string;
  name: string;
  priority: number;
  in: number;
  out: number;
  acked: number;
  failed: number;
  depth: number;
  leased: number;
  delayed: number;
  dead: number;
  oldest_seconds: number;
  groups: number;
  trend: number[];
  is_dlq: boolean;
  delivery_latency: Latency | null;
  ack_latency: Latency | null;
}

export interface Need {
  kind: string;
  severity: "warning" | "error";
  namespace: string | null;
  topic: string | null;
  group: string | null;
  key: string | null;
  count: number | null;
  since: number | null;
  text: string;
}

export interface OverviewAnswer {
  timestamp: number;
  totals: Totals;
  topics: TopicRow[];
  matching: number;
  needs: Need[];
  memory: ServerMemory | null;
}

export interface Changes {
  timestamp: number;
  totals?: Totals;
  topics?: TopicRow[];
  order?: [string, string][];
  needs?: Need[];
  matching?: number;
  memory?: ServerMemory | null;
}

export interface Series {
  resolution: "second" | "minute";
  timestamps: number[];
  figures: Record<string, number[]>;
  topics: number;
  left_out: number;
}

export interface MessageView {
  id: string;
  topic: string;
  namespace: string;
  partition: number;
  offset: number;
  timestamp: number;
  key: string | null;
  headers: Record<string, string>;
  priority: number;
  attempt: number;
  value?: unknown;
  value_base64?: string;
  /** How large the value is, where only its beginning was sent. */
  value_bytes?: number;
  group?: string;
  publisher?: string;
  due?: number;
  expires?: number;
}

export interface MessagePage {
  messages: MessageView[];
  next?: string | null;
  scanned?: number;
  complete?: boolean;
}

export interface MessageDetail {
  message: MessageView;
  states: Record<string, State>;
}

export interface TraceEvent {
  time: number;
  what: string;
  group?: string;
  consumer?: string;
  attempt?: number;
  reason?: string;
  error?: string;
  until?: number;
  publisher?: string;
}

export interface Trace {
  id: string;
  topic: string;
  namespace: string;
  events: TraceEvent[];
  omitted: number;
}

export interface Explanation {
  id: string;
  group: string;
  state: string;
  reason: string;
  text: string;
  since: number | null;
  until: number | null;
  attempt: number | null;
  behind: { id: string; key: string | null; consumer: string | null; until: number | null } | null;
  consumers: number;
}

export interface GroupInfo {
  name: string;
  backlog: number;
  ready: number;
  delayed: number;
  leased: number;
  blocked: number;
  dead: number;
  skipped: number;
  leases: number;
  ephemeral: boolean;
  cursors: number[];
  consumers: Record<string, number[]>;
  paused?: boolean;
  paused_until?: number | null;
  reason?: string | null;
  delivery_latency: Latency | null;
  ack_latency: Latency | null;
}

export interface TopicView {
  namespace: string;
  name: string;
  id: number;
  config: Record<string, unknown>;
  dlq: string;
  created: number;
  depth: number;
  messages: number;
  bytes: number;
  partitions: { partition: number; start: number; end: number; messages: number; bytes: number }[];
  groups: GroupInfo[];
}

export interface Strip {
  group: string | null;
  partitions: StripPartition[];
}

export type StripPartition = { partition: number; start: number; end: number; width: number } & Partial<
  Record<State | "gone", number[]>
>;

export interface DelayedAnswer {
  from: number;
  to: number;
  seconds: number;
  counts: number[];
  total: number;
  later: number;
  earlier: number;
}

export interface ErrorKind {
  error: string;
  example: string;
  count: number;
  first: number;
  last: number;
  groups: Record<string, number>;
  ids: string[];
}

export interface ErrorKinds {
  errors: ErrorKind[];
  total: number; // kinds
  scanned: number;
  complete: boolean;
}

export interface LeaseRow {
  lease: string | number;
  consumer: string;
  partition: number;
  first: number;
  last: number;
  messages: number;
  since: number | null;
  until: number;
  attempt: number | null;
}

export interface LockRow {
  key: string | null;
  partition: number;
  holder: { id: string; consumer: string | null; until: number | null } | null;
  state: string;
  waiting: number;
}

export interface ConsumerRow {
  name: string;
  leases: number;
  messages: number;
  partitions: number[];
  seen: number | null;
  oldest_lease: number | null;
}

export interface SeekPreview {
  messages: number;
  skipped: number;
  leased: number;
}

export interface Me {
  principal: string | null;
  scopes: string[];
  namespaces: string[] | null;
  expires: number | null;
  needs_token: boolean;
  server: { version: string; started: number; store: string; tcp_port: number | null };
}

export interface NamespaceInfo {
  name: string;
  topics: number;
  groups: number;
  messages: number;
  bytes: number;
  quota: Record<string, number | null>;
}

export interface Setting {
  name: string;
  value: unknown;
  source: string;
  default: unknown;
}

export interface Figures {
  topic: string;
  group: string | null;
  published: number | null;
  delivered: number;
  acknowledged: number;
  retried: number;
  dead_lettered: number;
  depth: number | null;
  lag_seconds: number | null;
  delivery_p50_ms: number | null;
  delivery_p95_ms: number | null;
  ack_p95_ms: number | null;
  retry_rate: number | null;
  dlq_rate: number | null;
}

export interface Report {
  generated_at: number;
  since: number | null;
  until: number | null;
  namespace: string;
  topics: Figures[];
  hourly: (Figures & { hour: number })[];
  errors: { topic: string; group: string | null; error: string; count: number; example: string; last: number }[];
  consumers: { topic: string; group: string | null; consumer: string; delivered: number; acknowledged: number }[];
}

export type RunState = "running" | "done" | "stopped" | "failed" | "stalled" | "gone";

export interface PipelineRun {
  run: string;
  state: RunState;
  began: number;
  ended: number | null;
  batches: number;
  rows_in: number;
  rows_out: number | null;
  error: string | null;
}

export interface Pipeline extends PipelineRun {
  namespace: string;
  job: string;
  kind: "archive" | "analyze" | "flow";
  reporter: string | null;
  seconds: number;
  reported: number;
  is_stream: boolean;
  reads: string | null;
  writes: string | null;
  host: string | null;
  lag: number | null;
  last_batch: { stream: string; number: number; rows_in: number; rows_out: number | null; seconds: number; at: number } | null;
  warnings: number;
  warning: string | null;
  recent: PipelineRun[];
}

export interface PipelinesAnswer {
  pipelines: Pipeline[];
  total: number;
}

export type ActivityKind = "pushed" | "delivered" | "completed" | "failed" | "dead_lettered" | "topic_created" | "topic_deleted";

export interface ActivityEvent {
  timestamp: number;
  kind: ActivityKind;
  namespace: string;
  topic: string;
  count: number;
}
