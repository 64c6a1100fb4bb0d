// factsOf reads what the header of a model's file states. The API leaves its form open, so only texts and numbers of the
// first level are shown, and not too many.
export function factsOf(facts: unknown): [string, string | number][] {
  if (typeof facts !== "object" || facts === null || Array.isArray(facts)) return [];
  return Object.entries(facts)
    .filter((entry): entry is [string, string | number] => typeof entry[1] === "string" || typeof entry[1] === "number")
    .slice(0, 40);
}
