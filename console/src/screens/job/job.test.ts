import { expect, it } from "vitest";
import type { Job } from "@/screens/jobs/job";
import { parseHparams, parseInteger } from "./actions/parse";
import type { Hardware } from "./system/hardware";
import { heat } from "./system/heat";
import { timeline } from "./timeline";
import { toYaml } from "./yaml";

it("writes YAML that reads back as the same value", () => {
  const value = { a: [], b: {}, name: "yes", text: "a: b\n#", list: [{ x: 1, z: [1, "2"] }, null], "odd key:": -0.5 };
  expect(toYaml(value)).toBe(
    'a: []\nb: {}\nname: "yes"\ntext: "a: b\\n#"\nlist:\n  - x: 1\n    z:\n      - 1\n      - "2"\n  - null\n"odd key:": -0.5\n',
  );
  expect(toYaml("a/b")).toBe("a/b\n");
});

it("leaves out the milestones that an ended job has not reached", () => {
  const times = {
    created_at: "2026-01-01T00:00:00Z",
    scheduled_at: null,
    starting_at: null,
    executor_running_at: null,
    running_at: null,
    paused_at: null,
  };
  const ended = timeline({ ...times, ended_at: "2026-01-01T00:01:00Z" } as Job);
  expect(ended.map((s) => [s.name, s.seconds])).toEqual([
    ["submitted", 60],
    ["ended", null],
  ]);
  expect(timeline({ ...times, ended_at: null } as Job)).toHaveLength(6);
});

it("puts the samples of all devices on one time axis", () => {
  const at = (minute: number) => new Date(minute * 60_000).toISOString();
  const series = (gpu: string, ...values: number[]): Hardware => ({
    node: "n",
    gpu,
    key: "util",
    points: values.map((value, minute) => ({ ts: at(minute), value, attempt: 1 })),
    omitted: 0,
  });
  const map = heat([series("10", 0, 50, 100, 20), series("9", 5)], "util", 4);
  expect(map.rows.map((row) => row.gpu)).toEqual(["9", "10"]);
  expect(map.rows[1]?.cells).toEqual([0, 50, 100, 20]);
  expect(map.rows[1]).toMatchObject({ latest: 20, max: 100, mean: 42.5, full: 100 });
});

it("reads the inputs of a clone", () => {
  expect(parseHparams('{"a.b": 1}')).toEqual({ "a.b": 1 });
  expect(parseHparams("[1]")).toBeNull();
  expect(parseHparams("{")).toBeNull();
  expect([parseInteger(" 7 "), parseInteger(""), parseInteger("1.5")]).toEqual([7, undefined, undefined]);
});
