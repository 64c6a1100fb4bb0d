// Budget limits how many charts have a canvas. Charts ask for one when they are seen; those that were seen last wait until
// another one is not seen any more.
export class Budget {
  #seen = new Map<string, (on: boolean) => void>();
  #on = new Set<string>();

  constructor(readonly most: number) {}

  // enter is called when a chart is seen. tell is called when it may draw, now or later.
  enter(id: string, tell: (on: boolean) => void): void {
    this.#seen.set(id, tell);
    this.#fill();
  }

  leave(id: string): void {
    const tell = this.#seen.get(id);
    this.#seen.delete(id);
    if (!this.#on.delete(id)) return;
    tell?.(false);
    this.#fill();
  }

  #fill(): void {
    for (const [id, tell] of this.#seen) {
      if (this.#on.size >= this.most) return;
      if (this.#on.has(id)) continue;
      this.#on.add(id);
      tell(true);
    }
  }
}
