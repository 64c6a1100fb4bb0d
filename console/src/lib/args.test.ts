import { expect, test } from "vitest";
import { joinArgs, splitArgs } from "./args";

test.each([
  ["", []],
  ["  --a  1\n--b=2 ", ["--a", "1", "--b=2"]],
  [`--name "two words" --x='a "b"'`, ["--name", "two words", `--x=a "b"`]],
  [`--empty ""`, ["--empty", ""]],
])("%s", (line, args) => {
  expect(splitArgs(line)).toEqual(args);
});

test.each([[["--a", "1"]], [["two words", ""]], [[`it's`, `"`, `'"' "`]]])("%j survives", (args) => {
  expect(splitArgs(joinArgs(args))).toEqual(args);
});
