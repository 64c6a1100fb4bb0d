import { useQuery } from "@tanstack/react-query";
import { all } from "@/api/all";
import { api, call, type Schemas } from "@/api/client";
import { byOffset, usePages } from "@/api/pages";

export type Rubric = Schemas["Rubric"];
export type Version = Schemas["RubricVersion"];
const size = 50;
const slow = 30_000;

export function useRubrics(q: string | undefined, project: string | undefined) {
  return usePages<Rubric, number>(
    ["rubrics", "list", q, project],
    size,
    0,
    async (limit, offset, signal) =>
      byOffset(
        await call(api.GET("/api/rubrics", { params: { query: { limit, offset, q, project } }, signal })),
        size,
        offset,
      ),
    { refetchInterval: slow },
  );
}

export function useRubric(id: string) {
  return useQuery<Rubric>({
    queryKey: ["rubrics", id],
    queryFn: ({ signal }) => call(api.GET("/api/rubrics/{rubric_id}", { params: { path: { rubric_id: id } }, signal })),
    refetchInterval: slow,
  });
}

// useVersions reads the versions, newest first.
export function useVersions(id: string) {
  return useQuery<Version[]>({
    queryKey: ["rubrics", id, "versions"],
    queryFn: ({ signal }) =>
      all((limit, offset) =>
        call(
          api.GET("/api/rubrics/{rubric_id}/versions", {
            params: { path: { rubric_id: id }, query: { limit, offset } },
            signal,
          }),
        ),
      ).then((rows) => rows.toSorted((a, b) => (a.created_at < b.created_at ? 1 : -1))),
    refetchInterval: slow,
  });
}
