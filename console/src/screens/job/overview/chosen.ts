// The most charts of an overview.
const most = 6;
// What a key names if its recipe does not say which metrics matter.
const telling = ["loss", "reward", "accuracy", "exact_match"];

// chosen returns the keys of the charts of an overview, in the order of patterns: those that a pattern of the recipe
// matches, otherwise those whose last part names a loss, a reward or an accuracy, otherwise the first ones. In a pattern,
// "*" stands for any text.
export function chosen(keys: readonly string[], patterns: readonly string[]): string[] {
  const matched = new Set(patterns.flatMap((pattern) => keys.filter(matcher(pattern))));
  if (matched.size > 0) return [...matched].slice(0, most);
  const named = telling.flatMap((word) => keys.filter((key) => lastPart(key).includes(word)));
  return [...new Set(named.length > 0 ? named : keys)].slice(0, most);
}

function lastPart(key: string): string {
  return key.slice(key.lastIndexOf("/") + 1).toLowerCase();
}

function matcher(pattern: string): (key: string) => boolean {
  const parts = pattern.split("*").map((part) => part.replace(/[\\^$.|?+()[\]{}]/g, "\\$&"));
  const whole = new RegExp(`^${parts.join(".*")}$`);
  return (key) => whole.test(key);
}

// patternsOf returns which metrics a recipe is about: those that have a goal. metrics is the array of its version.
export function patternsOf(metrics: unknown): string[] {
  if (!Array.isArray(metrics)) return [];
  return metrics.flatMap((metric: { key?: unknown; goal?: unknown } | null) =>
    typeof metric?.key === "string" && typeof metric.goal === "string" ? [metric.key] : [],
  );
}
