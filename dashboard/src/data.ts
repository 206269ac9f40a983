/** Loading for components: what was shown stays while the next comes, and nothing is asked for while nobody looks. */

import { useEffect, useRef, useState } from "preact/hooks";
import { signal } from "@preact/signals";
import { isLockedOut } from "./api";

export const isVisible = signal(document.visibilityState !== "hidden");
document.addEventListener("visibilitychange", () => {
  isVisible.value = document.visibilityState !== "hidden";
});

export interface Loaded<T> {
  data: T | null;
  error: Error | null;
  isLoading: boolean;
  reload: () => void;
}

/** `key` names what is loaded: another one starts anew, null loads nothing. `every`: seconds until it is loaded again. */
export function useData<T>(key: string | null, load: (signal: AbortSignal) => Promise<T>, every = 0): Loaded<T> {
  const [state, setState] = useState<{ key: string | null; data: T | null; error: Error | null }>({
    key: null,
    data: null,
    error: null,
  });
  const [turn, setTurn] = useState(0);
  const loader = useRef(load);
  loader.current = load;

  useEffect(() => {
    if (key === null) return;
    const abort = new AbortController();
    let timer = 0;
    let isPutOff = false; // until somebody looks
    const again = (): void => {
      if (every > 0 && !abort.signal.aborted) timer = window.setTimeout(run, every * 1000);
    };
    const run = (): void => {
      isPutOff = !isVisible.value;
      if (isPutOff || isLockedOut.value) {
        again();
        return;
      }
      loader
        .current(abort.signal)
        .then(
          (data) => {
            if (!abort.signal.aborted) setState({ key, data, error: null });
          },
          (error: unknown) => {
            if (!abort.signal.aborted)
              setState((old) => ({ key, data: old.key === key ? old.data : null, error: error as Error }));
          },
        )
        .finally(again);
    };
    run();
    const stop = isVisible.subscribe((visible) => {
      if (visible && (isPutOff || timer)) {
        window.clearTimeout(timer);
        timer = 0;
        run();
      }
    });
    return () => {
      abort.abort();
      window.clearTimeout(timer);
      stop();
    };
  }, [key, every, turn]);

  const isCurrent = state.key === key;
  return {
    data: isCurrent ? state.data : null,
    error: isCurrent ? state.error : null,
    isLoading: key !== null && !isCurrent,
    reload: () => setTurn((value) => value + 1),
  };
}
