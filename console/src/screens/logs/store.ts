import type { Schemas } from "@/api/client";

export type LogLine = Schemas["LogLine"];

export const pageSize = 500;
// 50,000 lines are kept; the pages that were read longest ago are dropped first.
const mostPages = 100;

// LogStore holds parts of a log. Lines are numbered from 1 without gaps, so the number of a line is its place, and every
// page can be read by itself.
export class LogStore {
  #pages = new Map<number, (LogLine | undefined)[]>();
  #last = 0;

  // last is the number of the last line that is known to exist.
  get last(): number {
    return this.#last;
  }

  line(seq: number): LogLine | undefined {
    return this.#pages.get(pageOf(seq))?.[(seq - 1) % pageSize];
  }

  // put adds lines. A line that is held already is replaced by the same line.
  put(lines: readonly LogLine[]): void {
    for (const line of lines) {
      const page = this.#page(pageOf(line.seq));
      page[(line.seq - 1) % pageSize] = line;
      if (line.seq > this.#last) this.#last = line.seq;
    }
    for (const oldest of this.#pages.keys()) {
      if (this.#pages.size <= mostPages) break;
      this.#pages.delete(oldest);
    }
  }

  // missing returns the pages with lines from first to last that are not held, and marks the held ones as used.
  missing(first: number, last: number): number[] {
    const pages: number[] = [];
    for (let page = pageOf(Math.max(1, first)); page <= pageOf(Math.min(last, this.#last)); page++) {
      if (this.#complete(page)) this.#page(page);
      else pages.push(page);
    }
    return pages;
  }

  #complete(page: number): boolean {
    const held = this.#pages.get(page);
    const size = Math.min(pageSize, this.#last - page * pageSize);
    for (let at = 0; at < size; at++) if (held?.[at] === undefined) return false;
    return true;
  }

  // #page returns a page as the one that was used last.
  #page(number: number): (LogLine | undefined)[] {
    const page = this.#pages.get(number) ?? new Array<LogLine | undefined>(pageSize);
    this.#pages.delete(number);
    this.#pages.set(number, page);
    return page;
  }
}

export function pageOf(seq: number): number {
  return Math.floor((seq - 1) / pageSize);
}
