// The most charts of an overview: those that the recipe names, and those that are guessed.
const mostNamed = 12;
const mostGuessed = 6;
// What a key names if its recipe does not say which metrics matter.
const telling = ["loss", "reward", "accuracy", "exact_match"];

// chosen returns the keys of the charts of an overview, in the order of patterns: those that a pattern of the recipe
// matches, otherwise those whose last part names a loss, a reward or an accuracy, otherwise the first ones. In a pattern,
// "*" stands for any text.
export function chosen(keys: readonly string[], patterns: readonly string[]): string[] {
  const matched = new Set(patterns.flatMap((pattern) => keys.filter(matcher(pattern))));
  if (matched.size > 0) return [...matched].slice(0, mostNamed);
  const named = telling.flatMap((word) => keys.filter((key) => lastPart(key).includes(word)));
  return [...new Set(named.length > 0 ? named : keys)].slice(0, mostGuessed);
}

function lastPart(key: string): string {
  return key.slice(key.lastIndexOf("/") + 1).toLowerCase();
}

// matcher finds the parts between the "*" from left to right, so that no pattern takes long.
function matcher(pattern: string): (key: string) => boolean {
  const [head = "", ...rest] = pattern.split("*");
  const tail = rest.pop();
  if (tail === undefined) return (key) => key === pattern;
  return (key) => {
    if (!key.startsWith(head)) return false;
    let at = head.length;
    for (const part of rest) {
      const found = key.indexOf(part, at);
      if (found < 0) return false;
      at = found + part.length;
    }
    return key.length - tail.length >= at && key.endsWith(tail);
  };
}

// patternsOf returns which metrics a recipe is about: its charts, otherwise the keys of the metrics that have a goal.
export function patternsOf(recipe: { charts: readonly string[]; metrics?: unknown }): readonly string[] {
  const { charts, metrics } = recipe;
  if (charts.length > 0) return charts;
  if (!Array.isArray(metrics)) return [];
  return metrics.flatMap((metric: { key?: unknown; goal?: unknown } | null) =>
    typeof metric?.key === "string" && typeof metric.goal === "string" ? [metric.key] : [],
  );
}
