/** What a message holds, as text: JSON, or bytes that may be text, or neither. */

import { count } from "./format";
import type { MessageView } from "./types";

/** Of a value, so much is sent for a line of a list. */
export const PREVIEW_BYTES = 1000;

export function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** As the filter language wants a text that may have anything in it. */
export function quote(text: string): string {
  return `"${text.replace(/[\\"]/g, "\\$&")}"`;
}

/** The text that bytes spell in UTF-8, or null. Of a beginning, the last letter may be cut. */
export function asText(bytes: Uint8Array, isCut = false): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: isCut });
  } catch {
    return null;
  }
}

export function hex(bytes: Uint8Array, limit = 4096): string {
  const lines: string[] = [];
  for (let at = 0; at < Math.min(bytes.length, limit); at += 16) {
    const row = [...bytes.slice(at, at + 16)];
    const digits = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const letters = row.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${digits.padEnd(47)}  ${letters}`);
  }
  if (bytes.length > limit) lines.push(`… ${bytes.length - limit} more bytes`);
  return lines.join("\n");
}

/** One line of it. */
export function preview(message: MessageView, length = 200): string {
  if (message.value_base64 !== undefined) {
    const bytes = fromBase64(message.value_base64);
    const text = asText(bytes.slice(0, length * 4), true);
    const size = message.value_bytes ?? bytes.length;
    return text === null ? `${count(size)} bytes` : cut(text, length, size > bytes.length);
  }
  return message.value === undefined ? "" : cut(JSON.stringify(message.value), length);
}

function cut(text: string, length: number, isCut = false): string {
  const line = text.replaceAll(/\s+/g, " ");
  return line.length > length || isCut ? `${line.slice(0, length)}…` : line;
}
