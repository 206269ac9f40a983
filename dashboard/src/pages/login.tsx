/** Asks for a token, once for each tab. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { loadMe, setToken, token } from "../api";
import { Failure } from "../parts";

export function LoginPage(): JSX.Element {
  const [typed, setTyped] = useState("");
  const [error, setError] = useState<Error | null>(
    token.value === null ? null : new Error("the token was refused: it may have expired, or been revoked"),
  );
  const enter = async (event: Event): Promise<void> => {
    event.preventDefault();
    setToken(typed.trim());
    try {
      await loadMe();
    } catch (problem) {
      setToken(null);
      setError(problem as Error);
    }
  };
  return (
    <main class="login" id="main">
      <h1>Ortoo</h1>
      <form class="stack" onSubmit={enter}>
        <label class="field tall">
          <span>Token</span>
          <input
            type="password"
            autocomplete="off"
            required
            value={typed}
            onInput={(event) => setTyped(event.currentTarget.value)}
            ref={(input) => input?.focus()}
          />
        </label>
        <Failure error={error} />
        <button type="submit" class="primary">
          Enter
        </button>
        <p class="quiet">
          It is kept only in this tab, until you close it. Create one with <code>ortoo token create</code>.
        </p>
      </form>
    </main>
  );
}
