import { expect, test } from "vitest";
import { newestFirst } from "./events";

test("events are listed newest first, and only new ones are read again", async () => {
  const server = Array.from({ length: 450 }, (_, at) => at);
  const asked: number[] = [];
  const read = async (limit: number, offset: number) => {
    asked.push(offset);
    return server.slice(offset, offset + limit);
  };
  const first = await newestFirst<number>([], read);
  expect(first).toEqual(server.toReversed());
  asked.length = 0;
  server.push(450, 451);
  expect(await newestFirst(first, read)).toEqual(server.toReversed());
  expect(asked).toEqual([450]);
});
