// The session of this browser. The access token is only in the memory of its tabs; the refresh token is only in a cookie
// that scripts cannot read. A refresh token can be used once, so only one tab refreshes at a time: it holds a lock and
// sends the new access token to the other tabs.

export type User = { username: string; role: string };
type Grant = { token: string; user: User };
type Message = { kind: "grant"; grant: Grant } | { kind: "out" };

export type SessionDeps = {
  fetch: typeof fetch;
  channel: Pick<BroadcastChannel, "postMessage" | "addEventListener">;
  // exclusive runs a task while no other tab runs one.
  exclusive: <T>(task: () => Promise<T>) => Promise<T>;
  // leave opens the sign-in page.
  leave: () => void;
};

export class Session {
  #deps: SessionDeps;
  #grant: Grant | null = null;
  #flight: Promise<boolean> | null = null;

  constructor(deps: SessionDeps) {
    this.#deps = deps;
    deps.channel.addEventListener("message", (event) => this.#hear((event as MessageEvent<Message>).data));
  }

  get token(): string | null {
    return this.#grant?.token ?? null;
  }

  get user(): User | null {
    return this.#grant?.user ?? null;
  }

  // refresh gets an access token that differs from the given one, and reports whether the user is signed in. It throws if
  // the server cannot be reached. All calls at the same time share one request.
  refresh(stale: string | null = this.token): Promise<boolean> {
    if (this.token !== null && this.token !== stale) return Promise.resolve(true);
    this.#flight ??= this.#refresh(stale).finally(() => {
      this.#flight = null;
    });
    return this.#flight;
  }

  async #refresh(stale: string | null): Promise<boolean> {
    return this.#deps.exclusive(async () => {
      // While this tab waited for the lock, another one may have refreshed.
      if (this.token !== null && this.token !== stale) return true;
      const response = await this.#deps.fetch("/api/auth/refresh", {
        method: "POST",
        credentials: "same-origin",
        cache: "no-store",
        redirect: "error",
      });
      if (response.status === 401) {
        this.#grant = null;
        return false;
      }
      if (!response.ok) throw new RefreshError(response.status, Number(response.headers.get("Retry-After")) || 0);
      const grant = (await response.json()) as Grant;
      this.#grant = { token: grant.token, user: grant.user };
      this.#deps.channel.postMessage({ kind: "grant", grant: this.#grant } satisfies Message);
      return true;
    });
  }

  // end signs out this browser: all of its tabs open the sign-in page.
  async end(): Promise<void> {
    if (this.token === null) await this.refresh();
    const out = () =>
      this.#deps.fetch("/api/auth/logout", {
        method: "POST",
        credentials: "same-origin",
        headers: { Authorization: `Bearer ${this.token}` },
      });
    let response = await out();
    if (response.status === 401 && (await this.refresh())) response = await out();
    if (!response.ok && response.status !== 401) throw new RefreshError(response.status, 0);
    this.#deps.channel.postMessage({ kind: "out" } satisfies Message);
    this.lose();
  }

  // lose forgets the access token and opens the sign-in page.
  lose(): void {
    this.#grant = null;
    this.#deps.leave();
  }

  #hear(message: Message): void {
    if (message.kind === "out") this.lose();
    if (message.kind !== "grant") return;
    // Another user has signed in. The data on this page belongs to the previous one.
    if (this.#grant && this.#grant.user.username !== message.grant.user.username) {
      this.lose();
      return;
    }
    this.#grant = message.grant;
  }
}

// RefreshError means that it is unknown whether the user is signed in.
export class RefreshError extends Error {
  constructor(
    readonly status: number,
    readonly retryAfter: number,
  ) {
    super(`the session cannot be refreshed: status ${status}`);
  }
}
