import { api, type Schemas } from "@/api/client";
import { failure, toApiError } from "@/api/error";

export type Config = Schemas["PutHardwareConfigRequest"];
export type Loaded = { config: Schemas["HardwareConfig"]; etag: string | null };

export async function loadHardware(signal: AbortSignal): Promise<Loaded> {
  const { data, error, response } = await api.GET("/api/admin/hardware/config", { signal }).catch((thrown: unknown) => {
    throw toApiError(thrown);
  });
  if (!data) throw failure(response, error);
  return { config: data, etag: response.headers.get("ETag") };
}

// The outcome of a change: stored, refused until the impact is confirmed, or refused because the configuration has changed.
export type Outcome =
  | { kind: "stored" }
  | { kind: "impact"; confirm: string; detail: string }
  | { kind: "conflict"; detail: string };

export async function storeHardware(config: Config, etag: string | null, confirm: string | null): Promise<Outcome> {
  const header = {
    ...(etag ? { "If-Match": etag } : {}),
    ...(confirm ? { "X-Service-Confirm": confirm } : {}),
  };
  const { error, response } = await api
    .PUT("/api/admin/hardware/config", { params: { header }, body: config })
    .catch((thrown: unknown) => {
      throw toApiError(thrown);
    });
  if (response.ok) return { kind: "stored" };
  const problem = failure(response, error);
  if (response.status !== 409) throw problem;
  const impact = response.headers.get("X-Service-Impact");
  return impact
    ? { kind: "impact", confirm: impact, detail: problem.detail }
    : { kind: "conflict", detail: problem.detail };
}

export function textOfConfig(config: Schemas["HardwareConfig"]): string {
  return JSON.stringify({ series: config.series, profiles: config.profiles }, null, 2);
}

// parseConfig reads the document, or returns null if it is not one. The server checks its content.
export function parseConfig(text: string): Config | null {
  try {
    const value = JSON.parse(text) as Partial<Config> | null;
    const valid = Array.isArray(value?.series) && Array.isArray(value.profiles);
    return valid ? (value as Config) : null;
  } catch {
    return null;
  }
}

type Row = { key?: string };

// byKey arranges a configuration by the keys of its entries, so that a diff compares each entry with itself.
export function byKey(config: { series: readonly Row[]; profiles: readonly Row[] }): Record<string, unknown> {
  const arrange = (rows: readonly Row[]) => Object.fromEntries(rows.map((row, at) => [row.key ?? String(at), row]));
  return { series: arrange(config.series), profiles: arrange(config.profiles) };
}
