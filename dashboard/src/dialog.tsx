/** Asking once before something is lost, and short notes of what was done. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { signal } from "@preact/signals";

interface Question {
  title: string;
  body: ComponentChildren;
  verb: string;
  isDangerous: boolean;
  answer: (yes: boolean) => void;
}

const question = signal<Question | null>(null);
const note = signal<{ text: string; isError: boolean } | null>(null);
let noteTimer = 0;

/** What is about to happen and to how many; the verb is on the button. */
export function ask(title: string, body: ComponentChildren, verb: string, isDangerous = true): Promise<boolean> {
  question.value?.answer(false);
  return new Promise((resolve) => {
    question.value = {
      title,
      body,
      verb,
      isDangerous,
      answer: (yes) => {
        question.value = null;
        resolve(yes);
      },
    };
  });
}

export function toast(text: string, isError = false): void {
  window.clearTimeout(noteTimer);
  note.value = { text, isError };
  noteTimer = window.setTimeout(
    () => {
      note.value = null;
    },
    isError ? 8000 : 4000,
  );
}

/** A dialog of the browser: it keeps the focus inside, and Escape closes it. */
export function Modal(props: {
  label: string;
  onClose: () => void;
  class?: string;
  children: ComponentChildren;
}): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const shown = dialog.current;
    if (shown && !shown.open) shown.showModal();
    return () => shown?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      class={props.class ?? "modal"}
      aria-label={props.label}
      onCancel={(event) => {
        event.preventDefault();
        props.onClose();
      }}
      onClick={(event) => {
        if (event.target === dialog.current) props.onClose();
      }}
    >
      {props.children}
    </dialog>
  );
}

export function Dialogs(): JSX.Element {
  const asked = question.value;
  return (
    <>
      {asked && (
        <Modal key={asked.title} label={asked.title} onClose={() => asked.answer(false)}>
          <h2>{asked.title}</h2>
          <div class="modal-body">{asked.body}</div>
          <div class="modal-foot">
            <button type="button" onClick={() => asked.answer(false)}>
              Cancel
            </button>
            <button type="button" class={asked.isDangerous ? "danger" : "primary"} onClick={() => asked.answer(true)}>
              {asked.verb}
            </button>
          </div>
        </Modal>
      )}
      <div class="toasts" role="status" aria-live="polite">
        {note.value && <p class={note.value.isError ? "toast bad" : "toast"}>{note.value.text}</p>}
      </div>
    </>
  );
}
