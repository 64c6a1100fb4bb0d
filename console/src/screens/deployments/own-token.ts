import { api, call, send } from "@/api/client";
import { failure } from "@/api/error";
import type { Token } from "./deployment";

// OwnToken is the token of the chat box of one deployment. It is created with the first message, and revoked when the box
// is closed. Its secret is only in memory.
export class OwnToken {
  #made: Promise<Token & { token: string }> | null = null;

  constructor(
    readonly deployment: string,
    readonly changed: (token: Token | null) => void,
  ) {}

  // get returns the token. The first call creates it.
  get(): Promise<Token & { token: string }> {
    this.#made ??= this.#create().catch((error: unknown) => {
      this.#made = null;
      throw error;
    });
    return this.#made;
  }

  async #create(): Promise<Token & { token: string }> {
    const { token, ...made } = await call(
      api.POST("/api/model-deployments/{deployment_id}/tokens", {
        params: { path: { deployment_id: this.deployment } },
        body: { name: "console chat" },
      }),
    );
    if (token === null) throw new Error("the server returned no secret");
    this.changed({ ...made, token: null });
    return { ...made, token };
  }

  // revoke ends the token. The request outlives the page. A token that was not ended stays that of the box, and the error is
  // thrown; one that no longer exists was ended elsewhere.
  async revoke(): Promise<void> {
    const made = this.#made;
    this.#made = null;
    if (!made) return;
    const { id } = await made;
    const path = `/api/model-deployments/${encodeURIComponent(this.deployment)}/tokens/${encodeURIComponent(id)}`;
    try {
      const response = await send(new Request(new URL(path, location.origin), { method: "DELETE", keepalive: true }));
      if (!response.ok && response.status !== 404) throw failure(response, await response.json().catch(() => null));
    } catch (error) {
      this.#made ??= made;
      throw error;
    }
    this.changed(null);
  }
}
