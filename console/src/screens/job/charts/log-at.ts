import type { Schemas } from "@/api/client";
import { api, call } from "@/api/client";
import { read } from "@/api/read";

// A line may arrive a moment before the point that the program reports with it.
const before = 1000;

// lineAt returns the number of the log's first line about when a run reported a step of a metric, or of its last line if it
// printed nothing afterwards; null if the log is empty or the point is not known any more.
export async function lineAt(runId: string, key: string, step: number): Promise<number | null> {
  const query = { keys: [key], points: 5, from: String(step), to: String(step) };
  const [series] = await call(api.GET("/api/runs/{id}/series", { params: { path: { id: runId }, query } }));
  const ts = series?.first?.ts;
  if (!ts) return null;
  const logs = `/api/runs/${encodeURIComponent(runId)}/logs`;
  const since = new Date(Date.parse(ts) - before).toISOString();
  let after = 0;
  for (;;) {
    const found = await read<Schemas["SearchLogsResponse"]>(`${logs}/search`, { since, after, limit: 1 });
    const line = found.lines[0];
    if (line) return line.seq;
    if (found.complete || found.searched <= after) break;
    after = found.searched;
  }
  const last = await read<Schemas["LogLine"][]>(logs, { tail: true, limit: 1 });
  return last.at(-1)?.seq ?? null;
}
