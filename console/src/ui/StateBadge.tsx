import { useTranslation } from "react-i18next";
import { cx } from "@/lib/cx";
import type { Tone } from "./Badge";

// What the states of all kinds of objects mean for the eye. A state that is not listed is neutral.
const toneOf: Record<string, Tone> = {
  running: "good",
  ready: "good",
  serving: "good",
  active: "good",
  succeeded: "good",
  scheduled: "info",
  starting: "info",
  joining: "info",
  pending: "info",
  preparing: "info",
  probing: "info",
  validating: "info",
  not_ready: "warn",
  draining: "warn",
  queued: "neutral",
  stopped: "neutral",
  archived: "neutral",
  expired: "neutral",
  disabled: "neutral",
  pausing: "warn",
  paused: "warn",
  stopping: "warn",
  suspended: "warn",
  cordoned: "warn",
  drained: "warn",
  deprecated: "warn",
  failed: "bad",
  lost: "bad",
  rejected: "bad",
  invalid: "bad",
  withdrawn: "bad",
};
const moving = new Set([
  "scheduled",
  "starting",
  "joining",
  "pending",
  "preparing",
  "probing",
  "validating",
  "pausing",
  "stopping",
  "draining",
]);
const colors: Record<Tone, string> = {
  good: "text-accent",
  bad: "text-bad",
  warn: "text-warn",
  info: "text-info",
  neutral: "text-soft",
};

// StateBadge shows a state as a dot and a word, so that it can be read without colours. The texts are states.* in
// src/i18n. A state without a text is shown as it is.
export function StateBadge({ state }: { state: string }) {
  const { t } = useTranslation();
  const color = colors[toneOf[state] ?? "neutral"];
  return (
    <span
      className={cx(
        "inline-flex h-5 items-center gap-1.5 align-top whitespace-nowrap",
        state === "succeeded" || state === "stopped" ? "text-soft" : "text-ink",
      )}
    >
      <StateMark state={state} className={color} />
      {t(`states.${state}`, { defaultValue: state })}
    </span>
  );
}

// The mark differs in form, too: a ring waits, a half moves, a full disc is steady, a cross has failed.
function StateMark({ state, className }: { state: string; className: string }) {
  const tone = toneOf[state] ?? "neutral";
  return (
    <svg viewBox="0 0 12 12" className={cx("size-3 shrink-0", className)} aria-hidden="true">
      {state === "succeeded" ? (
        <path d="m2 6.4 2.7 2.7L10 3.4" fill="none" stroke="currentColor" strokeWidth="1.8" />
      ) : tone === "bad" ? (
        <path d="m2.5 2.5 7 7m0-7-7 7" fill="none" stroke="currentColor" strokeWidth="1.8" />
      ) : state === "paused" || state === "suspended" ? (
        <path d="M4 2.5v7m4-7v7" fill="none" stroke="currentColor" strokeWidth="1.8" />
      ) : moving.has(state) ? (
        <>
          <circle cx="6" cy="6" r="4" fill="none" stroke="currentColor" strokeWidth="1.6" />
          <path d="M6 3.2a2.8 2.8 0 0 1 0 5.6z" fill="currentColor" />
        </>
      ) : tone === "neutral" ? (
        <circle cx="6" cy="6" r="4" fill="none" stroke="currentColor" strokeWidth="1.6" />
      ) : (
        <circle cx="6" cy="6" r="4" fill="currentColor" />
      )}
    </svg>
  );
}
