import { all } from "@/api/all";

// The events of a deployment that are read.
const most = 10_000;

// newestFirst adds the events that are new to the known ones, which are listed newest first. read lists the oldest first, so
// the new ones are behind as many as are known.
export async function newestFirst<T>(
  known: readonly T[],
  read: (limit: number, offset: number) => Promise<T[]>,
): Promise<T[]> {
  const fresh = await all((limit, offset) => read(limit, known.length + offset), most - known.length);
  return [...fresh.toReversed(), ...known];
}
