import { useEffect, useState } from "react";
import { rankOfObject, useEventStream } from "@/api/use-event-stream";
import { useRun } from "@/screens/job/api";

const over = ["succeeded", "failed", "stopped"];

// useLiveRun reads a run, and reads it again when the stream of the list of runs reports that it changed. An event does not
// have the notes.
export function useLiveRun(id: string) {
  const [poll, setPoll] = useState(false);
  const query = useRun(id, poll);
  const run = query.data;
  const live = run !== undefined && !over.includes(run.state);
  const find = new URLSearchParams({ state: "all", archived: "all", q: id });
  const { state } = useEventStream(live ? `/api/runs/stream?${find}` : null, rankOfObject, () => void query.refetch());
  useEffect(() => setPoll(live && state !== "open"), [live, state]);
  return { run, live, error: query.error, retry: () => void query.refetch() };
}
