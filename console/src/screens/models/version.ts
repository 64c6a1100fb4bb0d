import type { Model } from "@/api/models";

// versionOf returns the version that an address names: "latest" is the newest that can be used, or the newest of all.
export function versionOf(
  text: string,
  model: Pick<Model, "latest_version">,
  versions: readonly { version: number }[],
) {
  if (text === "latest") return model.latest_version ?? versions[0]?.version ?? null;
  return /^[1-9]\d{0,8}$/.test(text) ? Number(text) : null;
}
