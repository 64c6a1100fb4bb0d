import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { render, screen, waitFor, within } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { queries } from "@/api/query";
import { startTexts } from "@/i18n/i18n";
import { respond, urlOf } from "@/test/server";
import { nameOf } from "./object-name";

// A loaded machine takes long to draw a screen for the first time.
const patience = { timeout: 60_000 };

test("an object is named by its name, its title or its login", () => {
  expect(nameOf({ id: "job_1", name: "PLAN" })).toBe("PLAN");
  expect(nameOf({ value: { name: "BOT" }, etag: "1" })).toBe("BOT");
  expect(nameOf({ name: "", title: "CHAT" })).toBe("CHAT");
  expect(nameOf({ username: "MEI" })).toBe("MEI");
  expect([nameOf(undefined), nameOf(null), nameOf({ id: "x" }), nameOf("x")]).toEqual([null, null, null, null]);
});

test(
  "a job is below the list of jobs, by its name",
  async () => {
    const id = "job_01M87WK8A1DDSGHJRYX2BDK2CD";
    vi.stubGlobal("scrollTo", () => undefined);
    vi.stubGlobal("fetch", async (input: Request | string) => {
      const { pathname } = urlOf(input);
      if (pathname !== `/api/jobs/${id}`) return respond(input);
      return Response.json(((await (await respond("/api/jobs")).json()) as unknown[])[0]);
    });
    await startTexts();
    const { router } = await import("@/app/router");
    render(
      <QueryClientProvider client={queries()}>
        <RouterProvider router={router} />
      </QueryClientProvider>,
    );
    await router.navigate({ href: `/jobs/${id}/events` });
    const crumbs = within(await screen.findByRole("navigation", { name: "Breadcrumbs", hidden: true }, patience));
    await waitFor(
      () => expect(crumbs.getAllByRole("link", { hidden: true }).map((a) => a.textContent)).toEqual(["Jobs", "PLAN-A"]),
      patience,
    );
    expect(crumbs.getByText("Jobs").closest("a")?.getAttribute("href")).toBe("/jobs");
  },
  2 * patience.timeout,
);
