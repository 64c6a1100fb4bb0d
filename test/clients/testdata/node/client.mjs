// Calls the scenarios of engine.py with the official client for Node, and prints what its user sees as one JSON object.
import { createRequire } from "node:module";
import { text as read } from "node:stream/consumers";

const { default: OpenAI } = createRequire(`${process.env.NODE_MODULES}/`)("openai");
const task = JSON.parse(await read(process.stdin));
const client = new OpenAI({ baseURL: task.url, apiKey: task.key, maxRetries: 2, timeout: 120_000 });
const slow = new OpenAI({ baseURL: task.slow_url, apiKey: task.slow_key, maxRetries: 2, timeout: 120_000 });
const of = (name) => (name === "late" || name === "pause" ? slow : client).chat.completions;
const messages = [{ role: "user", content: "Hi" }];
const model = (name) => `${name}/node`;
const seen = (answer) => ({ text: answer.choices[0].message.content, tokens: answer.usage.total_tokens });
const whole = async (name) => seen(await of(name).create({ model: model(name), messages }));

async function streamed(name) {
  let text = "";
  let tokens = null;
  try {
    for await (const part of await of(name).create({ model: model(name), messages, stream: true })) {
      text += part.choices.map((choice) => choice.delta.content ?? "").join("");
      tokens = part.usage?.total_tokens ?? tokens;
    }
  } catch (error) {
    throw Object.assign(error, { text });
  }
  return { text, tokens };
}

async function headers(name) {
  const { data, response } = await client.chat.completions.create({ model: model(name), messages }).withResponse();
  return { ...seen(data), headers: task.headers.map((header) => response.headers.get(header)) };
}

async function responses(name) {
  let text = "";
  let tokens = null;
  for await (const event of await client.responses.create({ model: model(name), input: "Hi", stream: true })) {
    if (event.type === "response.output_text.delta") text += event.delta;
    if (event.type === "response.completed") tokens = event.response.usage.total_tokens;
  }
  return { text, tokens };
}

async function response(name) {
  const answer = await client.responses.create({ model: model(name), input: "Hi" });
  return { text: answer.output_text, tokens: answer.usage.total_tokens };
}

async function embedding(name) {
  const input = Array(64).fill("Hi");
  const answer = await client.embeddings.create({ model: model(name), input, encoding_format: "float" });
  return { text: `${answer.data.length} x ${answer.data[0].embedding.length}`, tokens: answer.usage.total_tokens };
}

async function audio(name) {
  const file = new File(["RIFF".repeat(100)], "a.wav");
  return { text: (await client.audio.transcriptions.create({ model: model(name), file })).text };
}

const scenarios = {
  ...Object.fromEntries(["compressed", "redirect", "limit", "busy", "final", "missing", "page", "lost", "late"].map((name) => [name, whole])),
  ...Object.fromEntries(["stream", "cut", "border", "failure", "pause"].map((name) => [name, streamed])),
  plain: headers,
  response,
  responses,
  embedding,
  slash: async (name) => ({ text: (await client.post("/chat/completions/", { body: { model: model(name), messages } })).id }),
  early: (name) => client.post("/early", { body: { model: model(name), text: "x".repeat(900_000) } }),
  audio,
  model: async () => ({ text: (await client.models.retrieve("org/100%")).id }),
};

async function attempt(name) {
  try {
    return [name, { kind: "result", ...(await scenarios[name](name)) }];
  } catch (error) {
    return [name, { kind: error.constructor.name, status: error.status, code: error.code, text: error.text ?? "" }];
  }
}

console.log(JSON.stringify(Object.fromEntries(await Promise.all(task.scenarios.map(attempt)))));
