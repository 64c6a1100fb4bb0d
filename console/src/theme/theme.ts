import { useSyncExternalStore } from "react";

export type ThemeChoice = "system" | "light" | "dark";
export const themeChoices: readonly ThemeChoice[] = ["system", "light", "dark"];

const key = "signalbox.theme";
const dark = () => matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

export function themeChoice(): ThemeChoice {
  const stored = read();
  return themeChoices.find((choice) => choice === stored) ?? "system";
}

// setTheme stores the choice in this browser and shows it. The profile stores it for the user's other browsers.
export function setTheme(choice: ThemeChoice): void {
  try {
    localStorage.setItem(key, choice);
  } catch {
    // Without storage the choice lasts until the page is closed.
  }
  apply();
}

// watchTheme follows the system and the other tabs until the page is closed.
export function watchTheme(): void {
  dark().addEventListener("change", apply);
  addEventListener("storage", (event) => {
    if (event.key === key) apply();
  });
  apply();
}

export function useTheme(): { choice: ThemeChoice; shown: "light" | "dark" } {
  const choice = useSyncExternalStore(subscribe, themeChoice);
  const shown = useSyncExternalStore(subscribe, shownTheme);
  return { choice, shown };
}

function shownTheme(): "light" | "dark" {
  return document.documentElement.dataset.theme === "dark" ? "dark" : "light";
}

function apply(): void {
  const choice = themeChoice();
  const shown = choice === "system" ? (dark().matches ? "dark" : "light") : choice;
  document.documentElement.dataset.theme = shown;
  const color = getComputedStyle(document.documentElement).getPropertyValue("--paper").trim();
  document.querySelector('meta[name="theme-color"]')?.setAttribute("content", color);
  for (const tell of listeners) tell();
}

function read(): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function subscribe(tell: () => void): () => void {
  listeners.add(tell);
  return () => listeners.delete(tell);
}
