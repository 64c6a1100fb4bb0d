import type { LivePoint } from "./curve";

// A chart reads its series again from time to time, so this many of the newest points are enough.
const most = 1000;
const none: readonly LivePoint[] = [];

// LivePoints holds the newest points of each metric as a stream sends them. Charts see them at most four times a second.
export class LivePoints {
  #points = new Map<string, LivePoint[]>();
  #shown = new Map<string, readonly LivePoint[]>();
  #changed = new Set<string>();
  #listeners = new Map<string, Set<() => void>>();
  #scheduled = false;

  // schedule runs a task after the time between two renders.
  constructor(readonly schedule: (task: () => void) => void) {}

  readonly get = (key: string): readonly LivePoint[] => this.#shown.get(key) ?? none;

  readonly subscribe = (key: string, listener: () => void): (() => void) => {
    const all = this.#listeners.get(key) ?? new Set();
    this.#listeners.set(key, all.add(listener));
    return () => all.delete(listener);
  };

  // add takes the points of one batch. A point that another attempt reported again replaces those from its step on.
  add(points: readonly (LivePoint & { key: string })[]): void {
    for (const { key, ...point } of points) {
      const list = this.#points.get(key) ?? [];
      while ((list.at(-1)?.step ?? -1) >= point.step) list.pop();
      list.push(point);
      if (list.length > 2 * most) list.splice(0, list.length - most);
      this.#points.set(key, list);
      this.#changed.add(key);
    }
    if (this.#scheduled || this.#changed.size === 0) return;
    this.#scheduled = true;
    this.schedule(() => this.#show());
  }

  #show(): void {
    this.#scheduled = false;
    const keys = [...this.#changed];
    this.#changed.clear();
    for (const key of keys) {
      this.#shown.set(key, (this.#points.get(key) ?? []).slice(-most));
      for (const tell of this.#listeners.get(key) ?? []) tell();
    }
  }
}
