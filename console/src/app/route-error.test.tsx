import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { render, screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { queries } from "@/api/query";
import { startTexts, texts } from "@/i18n/i18n";

test("an error before the first screen is shown", async () => {
  vi.stubGlobal("scrollTo", () => undefined);
  vi.stubGlobal("fetch", () => {
    throw new TypeError("OFFLINE");
  });
  await startTexts();
  await texts("errors");
  const { router } = await import("@/app/router");
  render(
    <QueryClientProvider client={queries()}>
      <RouterProvider router={router} />
    </QueryClientProvider>,
  );
  expect(await screen.findByRole("button", { name: "Try again" }, { timeout: 10_000 })).toBeDefined();
});
