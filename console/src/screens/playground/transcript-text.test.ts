import { expect, test } from "vitest";
import { questionOf, replyOf } from "./transcript-text";

test("the last message of a request is the question", () => {
  expect(questionOf('{"messages":[{"content":"a"},{"content":"b"}]}')).toBe("b");
  expect(questionOf('{"messages":[{"content":"a')).toBe('{"messages":[{"content":"a');
});

test("a stream and an object are read, also if they were cut", () => {
  const stream =
    'data: {"choices":[{"delta":{"content":"Hel"}}]}\n\ndata: {"choices":[{"delta":{"content":"lo"}}]}\n\ndata: [DONE]\n\n';
  expect(replyOf(stream)).toBe("Hello");
  expect(replyOf(stream.slice(0, 80))).toBe("Hel");
  expect(replyOf('{"choices":[{"message":{"content":"Hi"}}]}')).toBe("Hi");
  expect(replyOf("<html>")).toBe("<html>");
});
