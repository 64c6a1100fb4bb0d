import { type Query, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef } from "react";

// about reports whether a read is about the run: its key has the run's id, or a list with it.
const about = (query: Query, run: string) => query.queryKey.flat().includes(run);

// useLastReads reads the queries about a run once more when the run leaves live, which are the ids of the runs that have not
// ended. A query that is read from time to time while its run is live may have been read before the run's last reports.
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
