import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { fireEvent, render, screen, waitFor } from "@testing-library/react";
import { beforeEach, expect, it, vi } from "vitest";
import { TooltipProvider } from "@/ui/Tooltip";
import { TryIt } from "./TryIt";

// The statuses of a chat and of the end of a token. The response to a chat is HELLO.
const status = { chat: 200, end: 204 };

beforeEach(() => {
  Object.assign(status, { chat: 200, end: 204 });
  vi.stubGlobal("fetch", async (input: Request | string) => {
    const { method, url } = input instanceof Request ? input : new Request(input);
    if (method === "DELETE") return new Response(null, { status: status.end });
    const made = { id: "tok_1", prefix: "dtk_1", token: "dtk_1_secret" };
    if (url.endsWith("/tokens")) return Response.json(made, { status: 201 });
    if (status.chat !== 200) return Response.json({ detail: "no" }, { status: status.chat });
    return new Response('data: {"choices":[{"delta":{"content":"HELLO"}}]}\n\ndata: [DONE]\n\n');
  });
  render(
    <QueryClientProvider client={new QueryClient()}>
      <TooltipProvider>
        <TryIt deployment="dep_1" url="http://127.0.0.1/inference/dep_1/v1" />
      </TooltipProvider>
    </QueryClientProvider>,
  );
});

const box = () => screen.getByRole<HTMLTextAreaElement>("textbox");
const send = (text: string) => {
  fireEvent.change(box(), { target: { value: text } });
  fireEvent.keyDown(box(), { key: "Enter" });
};

it("keeps a message that got no response", async () => {
  status.chat = 503;
  send("1+2?");
  expect(await screen.findByRole("alert")).toBeDefined();
  expect(box().value).toBe("1+2?");
  status.chat = 200;
  fireEvent.keyDown(box(), { key: "Enter" });
  await screen.findByText("HELLO");
  expect(box().value).toBe("");
});

it("shows that its token was not revoked, and keeps it until it is", async () => {
  send("1+2?");
  await screen.findByText("HELLO");
  const revoke = () => screen.getByRole("button", { name: "revoke" });
  status.end = 503;
  fireEvent.click(revoke());
  expect(await screen.findByRole("alert")).toBeDefined();
  status.end = 204;
  fireEvent.click(revoke());
  await waitFor(() => expect(screen.queryByRole("button", { name: "revoke" })).toBeNull());
  expect(screen.queryByRole("alert")).toBeNull();
});
