/** Asking once before something is lost, and short notes of what was done. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { signal } from "@preact/signals";
import { visible } from "./format";
import { place } from "./router";

export interface Question {
  title: string;
  /** What will happen, and to how many. */
  told: ComponentChildren;
  /** What is on the button. */
  verb: string;
  isDangerous?: boolean;
  /** How to do it elsewhere. */
  same?: ComponentChildren;
}

interface Asked extends Question {
  answer: (yes: boolean) => void;
}

const question = signal<Asked | null>(null);
const note = signal<{ text: string; isError: boolean } | null>(null);
let noteTimer = 0;

export function ask(asked: Question): Promise<boolean> {
  question.value?.answer(false);
  return new Promise((resolve) => {
    const answer = (yes: boolean): void => {
      question.value = null;
      resolve(yes);
    };
    const told = typeof asked.told === "string" ? visible(asked.told) : asked.told;
    question.value = { ...asked, title: visible(asked.title), verb: visible(asked.verb), told, answer };
  });
}

/** The second half of a double click was not meant for what the first one brought up. */
export function isRepeated(event: MouseEvent): boolean {
  return event.detail > 1;
}

export function toast(text: string, isError = false): void {
  window.clearTimeout(noteTimer);
  note.value = { text: visible(text), isError };
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
    const before = document.activeElement;
    if (shown && !shown.open) shown.showModal();
    return () => {
      shown?.close();
      if (before instanceof HTMLElement) before.focus(); // it is gone from the page by now, and the browser forgets
    };
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
        if (event.target === dialog.current && !isRepeated(event)) props.onClose();
      }}
    >
      {props.children}
    </dialog>
  );
}

export function Dialogs(): JSX.Element {
  const asked = question.value;
  const where = place.value.path.join("/");
  useEffect(() => () => question.value?.answer(false), [where]); // what was asked there is not asked here
  return (
    <>
      {asked && (
        <Modal key={asked.title} label={asked.title} onClose={() => asked.answer(false)}>
          <h2>{asked.title}</h2>
          <div class="modal-body">
            <p>{asked.told}</p>
            {asked.same}
          </div>
          <div class="modal-foot">
            <button type="button" onClick={() => asked.answer(false)}>
              Cancel
            </button>
            <button
              type="button"
              class={asked.isDangerous === false ? "primary" : "danger"}
              onClick={(event) => {
                if (!isRepeated(event)) asked.answer(true);
              }}
            >
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
