import { type Query, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef } from "react";

// about reports whether a read is about the run: its key has the run's id, or a list with it.
const about = (query: Query, run: string) => query.queryKey.flat().includes(run);

// useLastReads reads all of a run once more when it ends. What is read from time to time while the run is live may have been
// read before its last reports. live are the ids of the runs that have not ended.
export function useLastReads(live: readonly string[]) {
  const client = useQueryClient();
  const before = useRef(live);
  const ids = live.join(" ");
  useEffect(() => {
    const now = ids.split(" ");
    for (const run of before.current)
      if (!now.includes(run)) void client.invalidateQueries({ predicate: (query) => about(query, run) });
    before.current = now.filter((id) => id !== "");
  }, [client, ids]);
}
