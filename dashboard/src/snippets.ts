/** The same request as curl and as Python, for whoever wants to repeat it elsewhere. */

import { address, isStep, me, token, type Query } from "./api";

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

export function curl(method: string, path: string[], query: Query = {}, json?: string): string {
  const { namespace, ...rest } = query;
  const shown = namespace === "default" ? rest : query; // that is the default on the server, too
  const home = new URL(".", window.location.href.replace(/[?#].*$/, "")).href;
  const parts = ["curl"];
  if (path.some(isStep)) parts.push("--path-as-is");
  if (method !== "GET" && !(method === "POST" && json !== undefined)) parts.push(`-X ${method}`);
  if (token.value !== null) parts.push(`-H "Authorization: Bearer $ORTOO_TOKEN"`);
  if (json !== undefined) parts.push(`-H 'Content-Type: application/json' -d ${quoted(json)}`);
  parts.push(quoted(home + address(path, shown)));
  return parts.join(" ");
}

export function text(value: string): string {
  return JSON.stringify(value);
}

/** JSON as Python writes it. */
export function literal(value: unknown): string {
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (typeof value === "object")
    return `{${Object.entries(value)
      .map(([key, item]) => `${text(key)}: ${literal(item)}`)
      .join(", ")}}`;
  return JSON.stringify(value);
}

export function python(call: string, namespace = "default", ...more: string[]): string {
  const within = namespace === "default" ? "" : `, namespace=${text(namespace)}`;
  const scheme = window.location.protocol === "https:" ? "ortoos" : "ortoo";
  const port = me.value?.server.tcp_port ?? 7632; // behind a proxy it may be another: that the server cannot know
  return [
    "import ortoo",
    "",
    `with ortoo.connect_sync("${scheme}://${window.location.hostname}:${port}"${within}) as queue:`,
    ...[call, ...more].map((line) => `    ${line}`),
  ].join("\n");
}
