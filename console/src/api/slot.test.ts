import { expect, test } from "vitest";
import { StreamSlot } from "./slot";

test("the claim with the highest rank holds the slot, the newest among equal ones", () => {
  const slot = new StreamSlot();
  const heard: (number | undefined)[] = [];
  slot.subscribe(() => heard.push(slot.holder()?.rank));
  const job = { rank: 1 };
  const log = { rank: 3 };
  const list = { rank: 1 };
  expect(slot.holder()).toBeNull();
  const leaveJob = slot.claim(job);
  expect(slot.holder()).toBe(job);
  const leaveLog = slot.claim(log);
  expect(slot.holder()).toBe(log);
  const leaveList = slot.claim(list);
  expect(slot.holder()).toBe(log);
  leaveLog();
  expect(slot.holder()).toBe(list);
  leaveList();
  leaveList();
  expect(slot.holder()).toBe(job);
  leaveJob();
  expect(slot.holder()).toBeNull();
  expect(heard).toEqual([1, 3, 3, 1, 1, 1, undefined]);
});
