import { expect, test } from "vitest";
import * as commands from "./commands";

const pages = import.meta.glob<string>("../../../docs/reference/cli/*.md", {
  eager: true,
  import: "default",
  query: "?raw",
});
// The flags of all commands are on the page above those.
const everywhere = ["--project", "--server"];
const reference = Object.values(pages).join("\n");

// calls returns the calls of signalbox in all commands, each a line.
const calls = Object.entries(commands)
  .filter(([name]) => name !== "firstRunProgram" && name !== "afterLogIn")
  .flatMap(([, made]) => (typeof made === "function" ? (made as (text: string) => string)("x") : made).split("\n"))
  .filter((line) => line.startsWith("signalbox "));

test("every command and flag that is shown exists", () => {
  expect(Object.keys(pages)).not.toHaveLength(0);
  expect(calls.length).toBeGreaterThan(12);
  for (const call of calls) {
    const name = (call.match(/^(?:signalbox)(?: [a-z]+)+/)?.[0] ?? "").split(" ");
    // The longest heading that begins the line is the command; what follows are its arguments.
    while (name.length > 1 && !reference.includes(`# ${name.join(" ")}\n`)) name.pop();
    expect(name.length, call).toBeGreaterThan(1);
    const section = reference.split(`# ${name.join(" ")}\n`)[1]?.split(/\n##/)[0] ?? "";
    for (const [flag] of call.matchAll(/(?<= )--?[a-z-]+/g)) {
      if (everywhere.includes(flag)) continue;
      expect(section, call).toMatch(new RegExp(`\`(-\\w, )?${flag}[,\`]`));
    }
  }
});

test("the name of a project is one word of a shell, and one text of YAML", () => {
  expect(commands.firstDeploymentCommand("a b'c")).toContain("'a b'\\''c'");
  expect(commands.firstJobCommand('a"\nJOB')).toContain('project: "a\\"\\nJOB"');
});
