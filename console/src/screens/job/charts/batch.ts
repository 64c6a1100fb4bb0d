import type { Series } from "./curve";

export type SeriesRequest = { points: number; x: string; from?: string; to?: string };
export type ReadSeries = (id: string, keys: string[], request: SeriesRequest) => Promise<Series[]>;

// The limits of the API for one request.
const mostKeys = 100;
const mostBuckets = 24_000;

type Waiting = { key: string; resolve: (series: Series) => void; reject: (error: unknown) => void };
type Group = { id: string; request: SeriesRequest; waiting: Waiting[] };

// Batch reads the series of several charts with one request, if the charts need them at about the same time.
export class Batch {
  #groups = new Map<string, Group>();

  // schedule runs a task a moment later.
  constructor(
    readonly read: ReadSeries,
    readonly schedule: (task: () => void) => void,
  ) {}

  load(id: string, key: string, request: SeriesRequest): Promise<Series> {
    return new Promise((resolve, reject) => {
      const name = JSON.stringify([id, request]);
      const group = this.#groups.get(name) ?? { id, request, waiting: [] };
      if (group.waiting.length === 0) {
        this.#groups.set(name, group);
        this.schedule(() => {
          this.#groups.delete(name);
          void this.#send(group);
        });
      }
      group.waiting.push({ key, resolve, reject });
    });
  }

  async #send({ id, request, waiting }: Group): Promise<void> {
    const size = Math.max(1, Math.min(mostKeys, Math.floor(mostBuckets / request.points)));
    for (let at = 0; at < waiting.length; at += size) {
      const part = waiting.slice(at, at + size);
      try {
        const rows = await this.read(id, [...new Set(part.map((w) => w.key))], request);
        const found = new Map(rows.map((row) => [row.key, row]));
        for (const { key, resolve } of part) resolve(found.get(key) ?? none(key));
      } catch (error) {
        for (const { reject } of part) reject(error);
      }
    }
  }
}

// none is a series without a point in the window.
function none(key: string): Series {
  return { key, points: [], buckets: [], count: 0, first: null, last: null, omitted: 0 };
}
