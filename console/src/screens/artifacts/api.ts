import { useQuery } from "@tanstack/react-query";
import { api, call, type Schemas } from "@/api/client";
import { byOffset, usePages } from "@/api/pages";
import { read } from "@/api/read";

export type Artifact = Schemas["Artifact"];
// Download is the download of one file; its url is signed and needs no token.
export type Download = { path: string; url: string; size_bytes: number; sha256: string };

const size = 100;

export function useArtifacts(runId: string, live: boolean) {
  return usePages(
    ["run", runId, "artifacts"],
    size,
    0,
    async (limit, offset, signal) =>
      byOffset(
        await call(
          api.GET("/api/runs/{id}/artifacts", { params: { path: { id: runId }, query: { limit, offset } }, signal }),
        ),
        size,
        offset,
      ),
    { refetchInterval: live ? 10_000 : undefined },
  );
}

// useSource reads the run whose artifact becomes a model.
export function useSource(runId: string) {
  return useQuery({
    queryKey: ["run", runId],
    queryFn: ({ signal }) => call(api.GET("/api/runs/{run_id}", { params: { path: { run_id: runId } }, signal })),
  });
}

// useNamesake reads the model of a project that has a name already, if there is one.
export function useNamesake(project: string, name: string) {
  return useQuery({
    queryKey: ["models", project, "name", name],
    queryFn: async ({ signal }) => (await modelsOf(project, name, signal))[0] ?? null,
    enabled: project !== "" && name !== "",
  });
}

function modelsOf(project: string, name: string, signal?: AbortSignal) {
  return call(api.GET("/api/models", { params: { query: { project, name, limit: 1 } }, signal }));
}

// register creates a version of the named model from an artifact. If the model does not exist, register creates it.
export async function register(project: string, name: string, artifact: Artifact) {
  const known = (await modelsOf(project, name))[0];
  const model = known ?? (await call(api.POST("/api/models", { body: { project, name } })));
  const source = { run_id: artifact.run_id, artifact_id: artifact.id };
  return call(
    api.POST("/api/models/{model_id}/versions", { params: { path: { model_id: model.id } }, body: { source } }),
  );
}

// downloads lists the files of an artifact.
export function downloads(artifact: Artifact): Promise<Download[]> {
  const path = `/api/runs/${encodeURIComponent(artifact.run_id)}/artifacts/${encodeURIComponent(artifact.id)}/download`;
  return read<Download[]>(path, { limit: 500 });
}
