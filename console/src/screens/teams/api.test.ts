import { expect, test } from "vitest";
import { lastLead, mayManage, type Team } from "./api";

const team = {
  members: [
    { username: "mei", role: "lead" },
    { username: "ada", role: "member" },
  ],
} as Team;

test("admins and leads manage a team, members do not", () => {
  expect(mayManage(team, { username: "root", role: "admin" })).toBe(true);
  expect(mayManage(team, { username: "mei", role: "operator" })).toBe(true);
  expect(mayManage(team, { username: "ada", role: "operator" })).toBe(false);
  expect(mayManage(team, null)).toBe(false);
});

test("the only lead is the last one", () => {
  expect(lastLead(team, "mei")).toBe(true);
  expect(lastLead(team, "ada")).toBe(false);
  const two = { members: [...team.members, { username: "bo", role: "lead" }] } as Team;
  expect(lastLead(two, "mei")).toBe(false);
});
