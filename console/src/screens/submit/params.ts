// A hyperparameter, as the JSON Schema of its recipe describes it.
export type Param = {
  name: string;
  type: string;
  description: string;
  fallback: unknown;
  choices: string[];
  min?: number;
  max?: number;
};

type Schema = Record<string, unknown>;

const object = (value: unknown): Schema =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Schema) : {};

const bound = (value: unknown): number | undefined => (typeof value === "number" ? value : undefined);

// paramsOf returns the hyperparameters of a recipe, in its order.
export function paramsOf(schema: unknown): Param[] {
  return Object.entries(object(object(schema).properties)).map(([name, property]) => {
    const p = object(property);
    return {
      name,
      type: typeof p.type === "string" ? p.type : "",
      description: typeof p.description === "string" ? p.description : "",
      fallback: p.default,
      choices: Array.isArray(p.enum) ? p.enum.filter((v): v is string => typeof v === "string") : [],
      min: bound(p.minimum),
      max: bound(p.maximum),
    };
  });
}

// groupsOf sorts hyperparameters by the part of their name before the first dot.
export function groupsOf(params: readonly Param[]): [string, Param[]][] {
  const groups = new Map<string, Param[]>();
  for (const param of params) {
    const group = param.name.includes(".") ? (param.name.split(".")[0] ?? "") : "";
    groups.set(group, [...(groups.get(group) ?? []), param]);
  }
  return [...groups];
}

export type Mistake = { key: "notNumber" | "notInteger" | "tooSmall" | "tooLarge"; limit?: number };

// mistakeOf returns what is wrong with a value. The server decides; this only reports it earlier.
export function mistakeOf(param: Pick<Param, "type" | "min" | "max">, value: unknown): Mistake | null {
  if (value === undefined || (param.type !== "integer" && param.type !== "number")) return null;
  if (typeof value !== "number") return { key: param.type === "integer" ? "notInteger" : "notNumber" };
  if (param.type === "integer" && !Number.isInteger(value)) return { key: "notInteger" };
  if (param.min !== undefined && value < param.min) return { key: "tooSmall", limit: param.min };
  if (param.max !== undefined && value > param.max) return { key: "tooLarge", limit: param.max };
  return null;
}

// numberOf reads what was typed into the field of a number. A text that is not a number stays a text, so that it is seen to be
// wrong everywhere; an empty text means no value.
export function numberOf(text: string): number | string | undefined {
  const trimmed = text.trim();
  if (trimmed === "") return undefined;
  const number = Number(trimmed);
  return Number.isFinite(number) ? number : trimmed;
}
