import type { Schemas } from "@/api/client";

export type Value = Schemas["MetricPoint"]["value"];

// finite returns a number of the API, or null for NaN, the infinities and no value.
export function finite(value: Value | null | undefined): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}
