import { expect, test } from "vitest";
import { membersOf } from "./schema";

test("members of objects and of objects in arrays have paths", () => {
  const schema = {
    type: "object",
    required: ["messages"],
    properties: {
      messages: {
        type: "array",
        items: { type: "object", properties: { role: { type: "string", description: "who" } } },
      },
      score: { type: ["number", "null"] },
      free: {},
    },
  };
  expect(membersOf(schema)).toEqual([
    { path: "messages", type: "array of object", required: true, description: "" },
    { path: "messages[].role", type: "string", required: false, description: "who" },
    { path: "score", type: "number | null", required: false, description: "" },
    { path: "free", type: "any", required: false, description: "" },
  ]);
});

test("a schema of any form is harmless", () => {
  for (const schema of [null, 7, "x", [], {}, { properties: 7 }, { items: [] }]) expect(membersOf(schema)).toEqual([]);
  type Deep = { properties: { a: Deep | object } };
  let deep: Deep | object = {};
  for (let n = 0; n < 100; n++) deep = { properties: { a: deep } };
  expect(membersOf(deep).length).toBeLessThan(10);
  const wide = { properties: Object.fromEntries(Array.from({ length: 5000 }, (_, n) => [`m${n}`, {}])) };
  expect(membersOf(wide)).toHaveLength(300);
});
