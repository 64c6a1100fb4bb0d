import { expect, test } from "vitest";
import { joinCommand, poolsOf, versionsOf } from "./api";

test("pools are separated by commas or spaces, each once", () => {
  expect(poolsOf(" a100, h100 a100,\n")).toEqual(["a100", "h100"]);
  expect(poolsOf(" ")).toEqual([]);
});

test("versions are counted", () => {
  const nodes = [{ version: "1" }, { version: "2" }, { version: "2" }];
  expect(versionsOf(nodes)).toEqual([
    ["2", 2],
    ["1", 1],
  ]);
});

test("the join command gets the token on its standard input, not as an argument", () => {
  const command = joinCommand("signalbox-agent join --server https://box", "jt_secret");
  expect(command.split("\n")[0]).not.toContain("jt_secret");
  expect(command).toBe("signalbox-agent join --server https://box <<'TOKEN'\njt_secret\nTOKEN");
});
