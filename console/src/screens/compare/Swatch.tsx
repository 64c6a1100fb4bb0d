import type { Ink } from "@/screens/job/charts/colors";

// Swatch is a piece of a run's line.
export function Swatch({ ink }: { ink: Ink }) {
  return (
    <svg viewBox="0 0 14 4" className="h-1 w-3.5 shrink-0" aria-hidden="true">
      <path d="M0 2h14" stroke={ink.color} strokeWidth="4" strokeDasharray={ink.dash ? "4 2" : undefined} />
    </svg>
  );
}
