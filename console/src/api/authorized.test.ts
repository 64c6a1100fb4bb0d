import { expect, test } from "vitest";
import { authorizedFetch } from "./authorized";

// server plays the responses one after the other and records what it gets.
function server(statuses: number[], refreshed = true) {
  const got: { token: string | null; body: string }[] = [];
  const events: string[] = [];
  const session = {
    token: "old" as string | null,
    refresh: async () => {
      events.push("refresh");
      if (refreshed) session.token = "new";
      return refreshed;
    },
    lose: () => events.push("lose"),
  };
  const send = authorizedFetch(session, async (input) => {
    const request = input as Request;
    got.push({ token: request.headers.get("Authorization"), body: await request.text() });
    return new Response(JSON.stringify({ code: statuses[0] === 403 ? "password_change_required" : "x" }), {
      status: statuses.shift(),
    });
  });
  const post = () => send(new Request("http://127.0.0.1/api/jobs", { method: "POST", body: "{}" }));
  return { got, events, post };
}

test("a refused token is refreshed once, and the request with its body is sent again", async () => {
  const { got, events, post } = server([401, 201]);
  expect((await post()).status).toBe(201);
  expect(got).toEqual([
    { token: "Bearer old", body: "{}" },
    { token: "Bearer new", body: "{}" },
  ]);
  expect(events).toEqual(["refresh"]);
});

test("a second refusal or the end of the session opens the sign-in page", async () => {
  const twice = server([401, 401]);
  expect((await twice.post()).status).toBe(401);
  expect(twice.events).toEqual(["refresh", "lose"]);
  expect(twice.got).toHaveLength(2);
  const over = server([401], false);
  expect((await over.post()).status).toBe(401);
  expect(over.events).toEqual(["refresh", "lose"]);
  expect(over.got).toHaveLength(1);
});

test("a temporary password leads to the sign-in page, which changes it", async () => {
  const { events, post } = server([403]);
  await post();
  expect(events).toEqual(["lose"]);
});

test("other failures are left to the caller", async () => {
  const { got, events, post } = server([503]);
  expect((await post()).status).toBe(503);
  expect(got).toHaveLength(1);
  expect(events).toEqual([]);
});
