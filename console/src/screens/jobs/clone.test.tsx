import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { fireEvent, render, screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { queries } from "@/api/query";
import { startTexts } from "@/i18n/i18n";
import { respond } from "@/test/server";

// A loaded machine takes long to draw a screen for the first time.
const patience = { timeout: 60_000 };

test(
  "a job is cloned from its row of the list",
  async () => {
    const sent: string[] = [];
    vi.stubGlobal("scrollTo", () => undefined);
    vi.stubGlobal("fetch", async (input: Request) => {
      if (input.method === "POST") sent.push(new URL(input.url).pathname);
      return respond(input);
    });
    await startTexts();
    const { router } = await import("@/app/router");
    render(
      <QueryClientProvider client={queries()}>
        <RouterProvider router={router} />
      </QueryClientProvider>,
    );
    await router.navigate({ href: "/jobs" });
    fireEvent.keyDown(await screen.findByRole("button", { name: "Actions for PLAN-A" }, patience), { key: "Enter" });
    fireEvent.click(await screen.findByRole("menuitem", { name: "Clone" }, patience));
    await screen.findByRole("dialog", { name: /PLAN-A/ }, patience);
    fireEvent.click(screen.getByRole("button", { name: "Clone" }));
    await screen.findByRole("alert", {}, patience);
    expect(sent.filter((path) => path.endsWith("/clone"))).toEqual(["/api/jobs/job_01M87WK8A1DDSGHJRYX2BDK2CD/clone"]);
  },
  2 * patience.timeout,
);
