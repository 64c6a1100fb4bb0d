import { expect, test, vi } from "vitest";
import { loginPath } from "./browser";
import { RefreshError, Session } from "./session";

const grant = (token: string, username = "mei") => Response.json({ token, user: { username, role: "operator" } });

// tabs returns sessions of several tabs, which share a channel and a lock, and the requests that they send.
function tabs(count: number, respond: (path: string, nth: number) => Response | Promise<Response>) {
  const requests: string[] = [];
  const left: number[] = [];
  const listeners: ((event: { data: unknown }) => void)[] = [];
  let last: Promise<unknown> = Promise.resolve();
  const sessions = Array.from({ length: count }, (_, tab) => {
    const own: ((event: { data: unknown }) => void)[] = [];
    return new Session({
      fetch: async (input) => {
        requests.push(String(input));
        return respond(String(input), requests.length);
      },
      channel: {
        postMessage: (data: unknown) => {
          for (const listener of listeners) if (!own.includes(listener)) listener({ data });
        },
        addEventListener: ((_: string, listener: (event: { data: unknown }) => void) => {
          listeners.push(listener);
          own.push(listener);
        }) as BroadcastChannel["addEventListener"],
      },
      exclusive: (task) => {
        const mine = last.then(task);
        last = mine.catch(() => undefined);
        return mine;
      },
      leave: () => left.push(tab),
    });
  });
  return { sessions, requests, left };
}

test("all calls of all tabs at the same time share one refresh", async () => {
  const { sessions, requests } = tabs(3, (_, nth) => grant(`t${nth}`));
  const results = await Promise.all(sessions.flatMap((s) => [s.refresh(), s.refresh()]));
  expect(results.every(Boolean)).toBe(true);
  expect(requests).toEqual(["/api/auth/refresh"]);
  expect(sessions.map((s) => s.token)).toEqual(["t1", "t1", "t1"]);
});

test("a token that another request has replaced is not refreshed again", async () => {
  const { sessions, requests } = tabs(1, (_, nth) => grant(`t${nth}`));
  const [session] = sessions;
  await session?.refresh();
  await session?.refresh("t1");
  await session?.refresh("t1");
  expect(requests).toHaveLength(2);
  expect(session?.token).toBe("t2");
});

test("401 means signed out, any other failure is unknown", async () => {
  const out = tabs(1, () => new Response(null, { status: 401 })).sessions[0];
  expect(await out?.refresh()).toBe(false);
  const busy = tabs(1, () => new Response(null, { status: 503, headers: { "Retry-After": "7" } })).sessions[0];
  await expect(busy?.refresh()).rejects.toMatchObject({ status: 503, retryAfter: 7 });
  await expect(busy?.refresh()).rejects.toBeInstanceOf(RefreshError);
});

test("signing out leaves all tabs", async () => {
  const { sessions, requests, left } = tabs(3, (path) =>
    path.endsWith("logout") ? new Response(null, { status: 204 }) : grant("t"),
  );
  await sessions[0]?.refresh();
  await sessions[0]?.end();
  expect(requests.at(-1)).toBe("/api/auth/logout");
  expect(left.toSorted()).toEqual([0, 1, 2]);
  expect(sessions.every((s) => s.token === null)).toBe(true);
});

test("a tab of one user does not continue as another user", async () => {
  const names = ["mei", "jonas"];
  const { sessions, left } = tabs(2, () => grant(`t-${names[0]}`, names.shift()));
  await sessions[0]?.refresh();
  await sessions[1]?.refresh("t-mei");
  expect(left).toEqual([0]);
  expect(sessions[0]?.token).toBeNull();
  expect(sessions[1]?.user?.username).toBe("jonas");
});

test("the token is in no storage", async () => {
  const spy = vi.spyOn(Storage.prototype, "setItem");
  const { sessions } = tabs(1, () => grant("secret"));
  await sessions[0]?.refresh();
  expect(spy).not.toHaveBeenCalled();
});

test("the sign-in page leads back only to a path of the console", () => {
  expect(loginPath("/jobs?state=failed")).toBe("/login?next=%2Fjobs%3Fstate%3Dfailed");
  expect(loginPath("/")).toBe("/login");
  expect(loginPath("//evil.example")).toBe("/login");
  expect(loginPath("https://evil.example")).toBe("/login");
});
