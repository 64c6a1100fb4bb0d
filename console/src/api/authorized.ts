import type { Session } from "@/auth/session";

type Credentials = Pick<Session, "token" | "refresh" | "lose">;

// authorizedFetch returns a fetch that sends the access token. If the server refuses the token, it refreshes the session
// once and repeats the request; if the session is over, the sign-in page opens.
export function authorizedFetch(session: Credentials, send: typeof fetch): (request: Request) => Promise<Response> {
  const attempt = (request: Request) => {
    if (session.token !== null) request.headers.set("Authorization", `Bearer ${session.token}`);
    return send(request);
  };
  return async (request) => {
    // A body can be sent once, so the repetition needs a copy.
    const again = request.clone();
    const used = session.token;
    const response = await attempt(request);
    if (response.status === 403 && (await codeOf(response)) === "password_change_required") session.lose();
    if (response.status !== 401) return response;
    if (await session.refresh(used)) {
      const repeated = await attempt(again);
      if (repeated.status !== 401) return repeated;
    }
    session.lose();
    return response;
  };
}

async function codeOf(response: Response): Promise<unknown> {
  const body: unknown = await response
    .clone()
    .json()
    .catch(() => null);
  return typeof body === "object" && body !== null ? (body as { code?: unknown }).code : null;
}
