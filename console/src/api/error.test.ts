import { expect, test } from "vitest";
import { ApiError, failure, problemOf, retryAfter, toApiError } from "./error";
import { errorMessage, permanent } from "./message";
import { wait } from "./query";

const response = (status: number, headers: Record<string, string> = {}) => new Response(null, { status, headers });

test("detail is a sentence", () => {
  const error = failure(response(409, { "X-Request-Id": "req1" }), { detail: "the job has ended", code: "job_state" });
  expect(error).toMatchObject({
    status: 409,
    code: "job_state",
    detail: "the job has ended",
    problems: [],
    requestId: "req1",
  });
});

test("detail is a list of problems with their places", () => {
  const detail = [{ type: "missing", loc: ["body", "spec", "name"], msg: "Field required" }, "not a problem"];
  const error = failure(response(422), { detail });
  expect(error.problems).toHaveLength(1);
  expect(error.detail).toBe("body.spec.name: Field required");
  expect(problemOf(error, "body", "spec", "name")).toBe("Field required");
  expect(problemOf(error, "body", "name")).toBeNull();
});

test("a response of something else between is an error, too", () => {
  expect(failure(response(502), null)).toMatchObject({ status: 502, code: null, detail: "" });
  expect(failure(response(504), "<html>")).toMatchObject({ status: 504, detail: "" });
});

test("a request that got no response has the status 0", () => {
  expect(toApiError(new TypeError("Failed to fetch")).status).toBe(0);
  expect(toApiError("odd").status).toBe(-1);
});

test("Retry-After is a bounded number of seconds", () => {
  expect(retryAfter("12")).toBe(12);
  expect(retryAfter("99999")).toBe(3600);
  expect(retryAfter("Wed, 21 Oct 2026 07:28:00 GMT")).toBe(0);
  expect(retryAfter(null)).toBe(0);
});

test("a message is found by the code, then by the status, with the seconds to wait", () => {
  const asked: unknown[] = [];
  const t = ((keys: string[], options: object) => {
    asked.push([keys, options]);
    return keys.at(-1);
  }) as never;
  errorMessage(t, failure(response(429, { "Retry-After": "9" }), { code: "streams" }));
  errorMessage(t, failure(response(418), {}));
  errorMessage(t, failure(response(507), {}));
  expect(asked).toEqual([
    [["code.streams", "status.429"], { ns: "errors", seconds: 9 }],
    [["status.400"], { ns: "errors", seconds: 0 }],
    [["status.500"], { ns: "errors", seconds: 0 }],
  ]);
});

test("only what can change is requested again, after the time that the server names", () => {
  const of = (status: number) => new ApiError(status, null, "", [], null, 0);
  expect([0, 404, 409, 422, 429, 500, 503].map((s) => permanent(of(s)))).toEqual([
    false,
    true,
    true,
    true,
    false,
    false,
    false,
  ]);
  expect(wait(0, 5, 0)).toBe(5000);
  expect(wait(0, 600, 0)).toBe(30_000);
  expect(wait(0, 0, 0)).toBe(250);
  expect(wait(20, 0, 0.9)).toBe(30_000);
});
