import type { Artifact } from "./api";

// isStored reports whether the platform has the bytes of an artifact and may send them: it has not those of a path on a
// host, and it does not send those of a protected run. Both have no digest. A removed checkpoint has no file.
export function isStored(artifact: Artifact): boolean {
  return artifact.sha256 !== null && artifact.removed_at === null;
}

// freedBy returns the number of the removed checkpoints among artifacts, and the bytes of their files.
export function freedBy(artifacts: Artifact[]): { count: number; bytes: number } {
  const removed = artifacts.filter((artifact) => artifact.removed_at !== null);
  return { count: removed.length, bytes: removed.reduce((sum, artifact) => sum + artifact.size_bytes, 0) };
}

// canRegister reports whether an artifact can become a version of a model. The server decides whether a user may do that.
export function canRegister(artifact: Artifact): boolean {
  if (artifact.kind === "eval_report" || artifact.removed_at !== null) return false;
  return ["gguf", "safetensors"].includes(artifact.format) && !onHost(artifact);
}

// onHost reports whether the path is one on the host of the run.
function onHost(artifact: Artifact): boolean {
  return artifact.path.startsWith("/");
}

// fileOf returns the name of an artifact: its path as the training gave it, or the last part of a path on the host.
export function fileOf(artifact: Artifact): string {
  if (!onHost(artifact)) return artifact.name;
  return artifact.path.slice(artifact.path.lastIndexOf("/") + 1) || artifact.path;
}

// nameFor returns a name for a model, from the name of a run: lower-case letters, digits and "-", "_" or "." inside.
export function nameFor(run: string): string {
  return run
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, "-")
    .replace(/^[^a-z0-9]+|[^a-z0-9]+$/g, "")
    .slice(0, 64);
}
