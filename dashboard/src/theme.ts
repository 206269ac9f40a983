/** Light or dark: as the system says, until somebody chooses. */

import { signal } from "@preact/signals";

export type Theme = "light" | "dark";
const NAME = "ortoo-theme";
const system = window.matchMedia("(prefers-color-scheme: dark)");

function chosen(): Theme | null {
  try {
    const value = window.localStorage.getItem(NAME);
    return value === "light" || value === "dark" ? value : null;
  } catch {
    return null;
  }
}

export const theme = signal<Theme>(chosen() ?? (system.matches ? "dark" : "light"));

system.addEventListener("change", () => {
  if (chosen() === null) theme.value = system.matches ? "dark" : "light";
});

theme.subscribe((value) => {
  document.documentElement.dataset["theme"] = value;
});

export function toggleTheme(): void {
  theme.value = theme.value === "dark" ? "light" : "dark";
  try {
    window.localStorage.setItem(NAME, theme.value);
  } catch {
    // then it holds until the page is left
  }
}
