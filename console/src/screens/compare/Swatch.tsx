import type { Ink } from "@/screens/job/charts/colors";

// Swatch is a piece of a run's line.
export function Swatch({ ink }: { ink: Ink }) {
  return (
    <svg viewBox="0 0 22 4" className="h-1 w-5.5 shrink-0" aria-hidden="true">
      <path d="M0 2h22" stroke={ink.color} strokeWidth="4" strokeDasharray={ink.dash?.join(" ")} />
    </svg>
  );
}
