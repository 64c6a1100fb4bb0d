import { expect, test } from "vitest";
import { formatAbsolute, formatBytes, formatDuration, formatNumber, formatRelative, zoneOr } from "./format";

const at = Date.parse("2026-11-24T12:00:00Z");

test("durations have at most two units", () => {
  const shown = [0, 59.9, 61, 3600, 3725, 90_000, -5].map((s) => formatDuration(s, "en"));
  expect(shown).toEqual(["0s", "59s", "1m 1s", "1h", "1h 2m", "1d 1h", "0s"]);
});

test("times are shown in their largest unit", () => {
  const ago = (s: number) => formatRelative(at - s * 1000, at, "en");
  expect([3, 45, 90, 7200, 200_000].map(ago)).toEqual(["now", "45s ago", "1m ago", "2h ago", "2d ago"]);
  expect(ago(-7200)).toBe("in 2h");
});

test("the exact time is in the user's zone", () => {
  expect(formatAbsolute(at, "en", "Asia/Tokyo")).toContain("9:00:00");
  expect(zoneOr("Mars/Olympus")).toBeUndefined();
  expect(zoneOr("Europe/Berlin")).toBe("Europe/Berlin");
});

test("bytes are in binary units", () => {
  expect([0, 1023, 1024, 1536, 10 * 1024 ** 3, 2 ** 60].map((n) => formatBytes(n, "en"))).toEqual([
    "0 B",
    "1,023 B",
    "1 KiB",
    "1.5 KiB",
    "10 GiB",
    "1,024 PiB",
  ]);
});

test("numbers follow the language", () => {
  expect(formatNumber(1234.567, "en")).toBe("1,234.57");
  expect(formatNumber(1234.567, "de")).toBe("1.234,57");
});
