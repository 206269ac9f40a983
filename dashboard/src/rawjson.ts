/** JSON as it was sent. Reading it into numbers and back would change 1.0, and integers beyond 2⁵³. */

type Reviver = (this: unknown, key: string, value: unknown, context?: { source?: string }) => unknown;
type RawJson = (text: string) => unknown;

const rawJson = (JSON as unknown as { rawJSON?: RawJson }).rawJSON;

/** Integers that a number cannot hold stay as they were written, where the browser can do that. */
export function parseExactly(text: string): unknown {
  const keep: Reviver = (_key, value, context) =>
    typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) && context?.source && rawJson
      ? rawJson(context.source)
      : value;
  return JSON.parse(text, keep);
}

function skipSpace(text: string, at: number): number {
  while (at < text.length && " \t\r\n".includes(text.charAt(at))) at += 1;
  return at;
}

function skipString(text: string, at: number): number {
  for (at += 1; text.charAt(at) !== '"'; at += 1) {
    if (at >= text.length) return at;
    if (text.charAt(at) === "\\") at += 1;
  }
  return at + 1;
}

function skipValue(text: string, at: number): number {
  let depth = 0;
  while (at < text.length) {
    const letter = text.charAt(at);
    if (letter === '"') at = skipString(text, at);
    else {
      if (letter === "{" || letter === "[") depth += 1;
      else if (letter === "}" || letter === "]") {
        if (depth === 0) return at;
        depth -= 1;
      } else if (letter === "," && depth === 0) return at;
      at += 1;
    }
  }
  return at;
}

/** The text of one member of an object, by its path; null where there is none. */
export function member(text: string, path: string[]): string | null {
  const [wanted, ...rest] = path;
  if (wanted === undefined) return text.trim();
  let at = skipSpace(text, 0);
  if (text.charAt(at) !== "{") return null;
  at = skipSpace(text, at + 1);
  while (at < text.length && text.charAt(at) === '"') {
    const end = skipString(text, at);
    const name = JSON.parse(text.slice(at, end)) as string;
    const start = skipSpace(text, skipSpace(text, end) + 1); // behind the colon
    const stop = skipValue(text, start);
    if (name === wanted) return member(text.slice(start, stop), rest);
    at = skipSpace(text, stop + 1);
  }
  return null;
}

/** The same JSON, indented; numbers and strings are left as they are. */
export function pretty(text: string): string {
  const parts: string[] = [];
  let depth = 0;
  const line = (): void => void parts.push(`\n${"  ".repeat(depth)}`);
  for (let at = skipSpace(text, 0); at < text.length; at = skipSpace(text, at)) {
    const letter = text.charAt(at);
    if (letter === '"') {
      const end = skipString(text, at);
      parts.push(text.slice(at, end));
      at = end;
      continue;
    }
    at += 1;
    if (letter === "{" || letter === "[") {
      const next = skipSpace(text, at);
      if (text.charAt(next) === "}" || text.charAt(next) === "]") {
        parts.push(letter, text.charAt(next));
        at = next + 1;
      } else {
        parts.push(letter);
        depth += 1;
        line();
      }
    } else if (letter === "}" || letter === "]") {
      depth = Math.max(0, depth - 1);
      line();
      parts.push(letter);
    } else if (letter === ",") {
      parts.push(letter);
      line();
    } else if (letter === ":") parts.push(": ");
    else parts.push(letter);
  }
  return parts.join("");
}
