import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { fireEvent, render, screen, within } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { queries } from "@/api/query";
import { startTexts } from "@/i18n/i18n";
import { respond, urlOf } from "@/test/server";

// A loaded machine takes long to draw a screen for the first time.
const patience = { timeout: 60_000 };

test(
  "the palette reports no results only if nothing matches",
  async () => {
    const id = "job_01m87wk8a1ddsghjryx2bdk2cd";
    const found = [{ kind: "job", id, title: "PLAN-A", project: "VIS", snippet: null }];
    vi.stubGlobal("scrollTo", () => undefined);
    vi.stubGlobal("fetch", (input: Request | string) => {
      const { pathname, searchParams } = urlOf(input);
      if (pathname !== "/api/search") return respond(input);
      return Response.json({ results: searchParams.get("q") === "PLAN-A" ? found : [], missing: [] });
    });
    await startTexts();
    const { router } = await import("@/app/router");
    render(
      <QueryClientProvider client={queries()}>
        <RouterProvider router={router} />
      </QueryClientProvider>,
    );
    await router.navigate({ href: "/projects" });
    await screen.findAllByText("VISION", {}, patience);
    fireEvent.keyDown(document.body, { key: "k", ctrlKey: true });
    const dialog = within(await screen.findByRole("dialog", {}, patience));
    const type = (text: string) => fireEvent.change(dialog.getByRole("combobox"), { target: { value: text } });
    type("PLAN-A");
    await dialog.findByText("PLAN-A", {}, patience);
    expect(dialog.queryByText(/^Nothing found/)).toBeNull();
    type("no such thing");
    await dialog.findByText("Nothing found", {}, patience);
    expect(dialog.queryByText("PLAN-A")).toBeNull();
  },
  2 * patience.timeout,
);
