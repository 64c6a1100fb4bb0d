import { useQuery } from "@tanstack/react-query";
import { api, call, type Schemas } from "@/api/client";

export type Hardware = Schemas["IngestHardwareSeries"];

const page = 500;
const mostSeries = 4000;

// useHardware reads the samples of all machines of a run.
export function useHardware(id: string, live: boolean) {
  return useQuery({
    queryKey: ["run", id, "hardware"],
    queryFn: async ({ signal }) => {
      const all: Hardware[] = [];
      while (all.length < mostSeries) {
        const query = { limit: page, offset: all.length, points: 200 };
        const rows = await call(api.GET("/api/runs/{id}/hardware", { params: { path: { id }, query }, signal }));
        all.push(...rows);
        if (rows.length < page) break;
      }
      return all;
    },
    refetchInterval: live ? 10_000 : false,
  });
}

export function useEnvironment(id: string) {
  return useQuery({
    queryKey: ["run", id, "environment"],
    queryFn: ({ signal }) => call(api.GET("/api/runs/{id}/environment", { params: { path: { id } }, signal })),
  });
}

export function useNodes(id: string) {
  return useQuery({
    queryKey: ["run", id, "nodes"],
    queryFn: ({ signal }) =>
      call(api.GET("/api/runs/{id}/environment/nodes", { params: { path: { id }, query: { limit: 500 } }, signal })),
  });
}
