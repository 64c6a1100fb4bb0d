// Snippets that call a deployment. url is its base URL with /v1; token is null until one was created here, and the
// snippets then read it from the environment.
export type Language = "curl" | "python" | "javascript";
export const languages: readonly Language[] = ["curl", "python", "javascript"];

export function snippet(language: Language, url: string, token: string | null): string {
  switch (language) {
    case "curl":
      return `curl -sN ${url}/chat/completions \\
  -H "Authorization: Bearer ${token ?? "$DEPLOYMENT_TOKEN"}" \\
  -H 'Content-Type: application/json' \\
  -d '{"model": "default", "stream": true, "messages": [{"role": "user", "content": "Hello"}]}'`;
    case "python":
      return `${token ? "" : "import os\n"}from openai import OpenAI

client = OpenAI(base_url=${JSON.stringify(url)}, api_key=${token ? JSON.stringify(token) : 'os.environ["DEPLOYMENT_TOKEN"]'})
for chunk in client.chat.completions.create(
    model="default", stream=True, messages=[{"role": "user", "content": "Hello"}]
):
    print(chunk.choices[0].delta.content or "", end="")`;
    case "javascript":
      return `import OpenAI from "openai";

const client = new OpenAI({ baseURL: ${JSON.stringify(url)}, apiKey: ${token ? JSON.stringify(token) : "process.env.DEPLOYMENT_TOKEN"} });
const stream = await client.chat.completions.create({
  model: "default", stream: true, messages: [{ role: "user", content: "Hello" }],
});
for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta?.content ?? "");`;
  }
}

// absolute makes the URL of a deployment usable outside of this page.
export function absolute(url: string, origin: string): string {
  return new URL(url, origin).href.replace(/\/$/, "");
}
