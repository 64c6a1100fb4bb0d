import { cx } from "@/lib/cx";

// Kbd shows keys that are pressed one after the other, such as "g j".
export function Kbd({ keys, inverted = false }: { keys: string; inverted?: boolean }) {
  return (
    <span className="inline-flex gap-0.5">
      {keys.split(" ").map((key, at) => (
        <kbd
          // biome-ignore lint/suspicious/noArrayIndexKey: the same key can be pressed twice
          key={at}
          className={cx(
            "inline-flex h-4.5 min-w-4.5 items-center justify-center rounded border px-1 text-2xs font-medium",
            inverted ? "border-soft text-paper" : "border-line bg-paper text-soft",
          )}
        >
          {key}
        </kbd>
      ))}
    </span>
  );
}
