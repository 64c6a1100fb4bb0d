// LiveTable holds the newest rows of a list that a stream keeps up to date. The rows have ids that sort by age, newest
// last, and a version that increases with each change. Rows that are older than the loaded ones are not held: they arrive
// with the page that the user loads.
export type LiveRow = { id: string; version: number };

export class LiveTable<T extends LiveRow> {
  #rows = new Map<string, T>();
  #buffer: Map<string, T | null> | null = null;
  #complete = false;
  #next: string | null = null;
  #oldest: string | null = null;
  #snapshot: T[] = [];
  #listeners = new Set<() => void>();
  #scheduled = false;

  // schedule runs a task a moment later, so that many events make one render.
  constructor(readonly schedule: (task: () => void) => void) {}

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  // rows returns the rows, newest first. It returns the same array until a row changes.
  readonly rows = (): T[] => this.#snapshot;

  // next is the position after which the next page begins; null after the last page, and until a page was read.
  get next(): string | null {
    return this.#next;
  }

  // oldest is the id of the last row of the pages; null if they have none.
  get oldest(): string | null {
    return this.#oldest;
  }

  // begin prepares for a page that is being read. Changes from now on are applied again after the page, which may be older.
  begin(): void {
    this.#buffer = new Map();
  }

  // replace shows the given first page, and drops the rows that it does not have. next is the position after which the next
  // page begins, null after the last one.
  replace(page: T[], next: string | null): void {
    const previous = this.#rows;
    this.#rows = new Map();
    this.#add(page, next, previous);
  }

  // append adds an older page.
  append(page: T[], next: string | null): void {
    this.#add(page, next, this.#rows);
  }

  // put stores a row that changed, unless it is older than the loaded ones.
  put(row: T): void {
    this.#buffer?.set(row.id, row);
    if (this.#beyond(row.id)) return;
    this.#rows.set(row.id, newer(this.#rows.get(row.id), row));
    this.#tell();
  }

  remove(id: string): void {
    this.#buffer?.set(id, null);
    if (this.#rows.delete(id)) this.#tell();
  }

  #add(page: T[], next: string | null, known: Map<string, T>): void {
    this.#complete = next === null;
    this.#next = next;
    for (const row of page) this.#rows.set(row.id, newer(known.get(row.id), row));
    const last = page.at(-1)?.id;
    if (last !== undefined) this.#oldest = last;
    const late = this.#buffer;
    this.#buffer = null;
    for (const [id, row] of late ?? []) {
      if (row === null) this.#rows.delete(id);
      else this.put(row);
    }
    // A page is shown at once, so that the list is not empty for a moment.
    this.#show();
  }

  #beyond(id: string): boolean {
    return !this.#complete && !this.#rows.has(id) && this.#oldest !== null && id < this.#oldest;
  }

  #tell(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    this.schedule(() => {
      if (this.#scheduled) this.#show();
    });
  }

  #show(): void {
    this.#scheduled = false;
    this.#snapshot = [...this.#rows.values()].sort((a, b) => (a.id < b.id ? 1 : a.id > b.id ? -1 : 0));
    for (const listener of this.#listeners) listener();
  }
}

function newer<T extends LiveRow>(a: T | undefined, b: T): T {
  return a !== undefined && a.version > b.version ? a : b;
}
