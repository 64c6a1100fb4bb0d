import { expect, test } from "vitest";
import { bodyOf, converse, curlOf, type Piece, pieceOf, rateOf, startParams } from "./chat";

const event = (text: string) => `data: ${JSON.stringify({ choices: [{ delta: { content: text } }] })}\n\n`;

const bytesOf = (text: string) => new TextEncoder().encode(text);

function streaming(...chunks: (string | Uint8Array)[]): Response {
  return new Response(
    new ReadableStream({
      start(controller) {
        for (const chunk of chunks) controller.enqueue(typeof chunk === "string" ? bytesOf(chunk) : chunk);
        controller.close();
      },
    }),
  );
}

async function read(response: Response): Promise<Piece[]> {
  const pieces: Piece[] = [];
  const signal = new AbortController().signal;
  await converse(
    "http://127.0.0.1/v1",
    {},
    async () => response,
    (piece) => pieces.push(piece),
    signal,
  );
  return pieces;
}

const whole = bytesOf(
  event("你好") +
    event(" ✓🙂") +
    'data: {"choices":[],"usage":{"completion_tokens":2,"prompt_tokens":5}}\r\n\r\ndata: [DONE]\n\n',
);

async function expectWhole(...chunks: Uint8Array[]): Promise<void> {
  const pieces = await read(streaming(...chunks));
  expect(pieces.map((p) => p.text).join("")).toBe("你好 ✓🙂");
  expect(pieces.at(-1)).toMatchObject({ tokens: 2, promptTokens: 5 });
}

test("a response may be cut at every byte, inside of a character or of an event", async () => {
  for (let at = 1; at < whole.length; at++) await expectWhole(whole.slice(0, at), whole.slice(at));
});

test.each([1, 2, 3, 5, 7])("a response may come in chunks of %i bytes", async (size) => {
  const chunks = Array.from({ length: Math.ceil(whole.length / size) }, (_, at) =>
    whole.slice(at * size, (at + 1) * size),
  );
  await expectWhole(...chunks);
});

test("an error inside a stream and a refused request are errors", async () => {
  await expect(read(streaming(event("a"), 'data: {"error":{"message":"out of memory"}}\n\n'))).rejects.toThrow(
    "out of memory",
  );
  await expect(read(Response.json({ detail: "no", code: "session_over" }, { status: 409 }))).rejects.toMatchObject({
    status: 409,
    code: "session_over",
  });
});

test("what an engine sends is not trusted", () => {
  expect(pieceOf("<html>")).toBeInstanceOf(Error);
  expect(pieceOf("null")).toBeInstanceOf(Error);
  expect(pieceOf('{"choices":"x"}')).toEqual({ text: "", finish: null, tokens: null, promptTokens: null });
  expect(pieceOf('{"choices":[{"delta":{"content":7},"finish_reason":"stop"}]}')).toMatchObject({
    text: "",
    finish: "stop",
  });
});

test("the speed counts what comes after the first token", () => {
  expect(rateOf(0, 200, 1200, 9, 11)).toEqual({ ttft: 200, perSecond: 10, tokens: 11, exact: true });
  expect(rateOf(0, 200, 1200, 11, null)).toEqual({ ttft: 200, perSecond: 10, tokens: 11, exact: false });
  expect(rateOf(0, null, 500, 0, null)).toMatchObject({ ttft: null, perSecond: null });
  expect(rateOf(0, 200, 200, 1, 1).perSecond).toBeNull();
});

test("a system prompt is sent only if there is one, and a seed too", () => {
  const message = { role: "user" as const, content: "it's" };
  expect(bodyOf([message], startParams).messages).toEqual([message]);
  expect(bodyOf([message], startParams)).not.toHaveProperty("seed");
  const body = bodyOf([message], { ...startParams, system: "Be brief.", seed: 7 });
  expect(body.messages[0]).toEqual({ role: "system", content: "Be brief." });
  expect(body.seed).toBe(7);
  expect(curlOf("http://h/v1", body)).toContain("it'\\''s");
});
