// A browser allows six connections to a host over HTTP/1.1, for all of its tabs together. A tab therefore has at most one
// open stream: that of the claim with the highest rank, and of the newest among equal ones. The others poll meanwhile.
export type Claim = { rank: number };

export class StreamSlot {
  #claims: Claim[] = [];
  #listeners = new Set<() => void>();

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  // holder returns the claim whose stream may be open, or null.
  readonly holder = (): Claim | null => this.#claims.at(-1) ?? null;

  // claim adds a claim. It returns a function that gives the claim back.
  claim(claim: Claim): () => void {
    const at = this.#claims.findIndex((other) => other.rank > claim.rank);
    this.#claims.splice(at === -1 ? this.#claims.length : at, 0, claim);
    this.#tell();
    return () => {
      this.#claims = this.#claims.filter((other) => other !== claim);
      this.#tell();
    };
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }
}
