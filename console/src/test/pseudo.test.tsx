import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { render, screen } from "@testing-library/react";
import i18next from "i18next";
import { beforeAll, expect, test, vi } from "vitest";
import { queries } from "@/api/query";
import { startTexts } from "@/i18n/i18n";
import { respond } from "./server";

// Every text of the console comes from its files of texts. In a language in which all of them are in brackets, a text
// outside of brackets was forgotten.

// A loaded machine takes long to draw a screen for the first time.
const patience = 60_000;

type Tree = { [key: string]: string | Tree };
const files = import.meta.glob<{ default: Tree }>(["../i18n/{en,errors.en}.json", "../screens/*/en.json"], {
  eager: true,
});

function bracketed(texts: Tree): Tree {
  return Object.fromEntries(
    Object.entries(texts).map(([key, text]) => [key, typeof text === "string" ? `[${text}]` : bracketed(text)]),
  );
}

beforeAll(async () => {
  vi.stubGlobal("fetch", respond);
  vi.stubGlobal("scrollTo", () => undefined);
  await startTexts();
  for (const [path, file] of Object.entries(files)) {
    const area = path.match(/screens\/(\w+)\//)?.[1];
    const namespace = area ?? (path.includes("errors") ? "errors" : "app");
    await i18next.loadNamespaces(namespace);
    i18next.addResourceBundle("en", namespace, bracketed(file.default), true, true);
  }
}, patience);

// outside returns the texts and names of a page that are not in brackets. Data has no lower-case letters here, and Intl
// formats times and durations.
function outside(root: Element): string[] {
  const found: string[] = [];
  const look = (text: string | null, element: Element) => {
    let left = text ?? "";
    for (let before = ""; before !== left; ) {
      before = left;
      left = left.replace(/\[[^[\]]*\]/g, "");
    }
    if (/[a-z]{2}/.test(left) && !element.closest("time,pre,kbd,style,script,code,.font-mono,[data-format]"))
      found.push(text ?? "");
  };
  for (const element of [root, ...root.querySelectorAll("*")]) {
    for (const name of ["aria-label", "placeholder", "alt", "title"]) look(element.getAttribute(name), element);
    for (const node of element.childNodes) if (node.nodeType === Node.TEXT_NODE) look(node.textContent, element);
  }
  return found;
}

test.each([
  ["/", "PLAN-A"],
  ["/jobs", "PLAN-A"],
  ["/jobs?state=paused&q=NOTHING", "[No job matches]"],
  ["/projects", "VISION"],
  ["/projects/VIS", "MEI"],
  ["/settings/profile", "127.0.0.1"],
  ["/submit", "RECIPE"],
  ["/compare", "[Nothing to compare yet]"],
  ["/models", "CHAT-B"],
  ["/datasets", "[No dataset yet]"],
  ["/environments", "[No environment yet]"],
  ["/rubrics", "[No rubric yet]"],
  ["/fleets", "[No fleet exists yet]"],
  ["/teams", "[No team for you yet]"],
  ["/nowhere", "[Page not found]"],
])(
  "all texts of %s are translated",
  async (path, mark) => {
    const { router } = await import("@/app/router");
    render(
      <QueryClientProvider client={queries()}>
        <RouterProvider router={router} />
      </QueryClientProvider>,
    );
    void router.navigate({ href: path, replace: true });
    await screen.findAllByText(mark, { exact: false }, { timeout: patience });
    expect(outside(document.body)).toEqual([]);
  },
  2 * patience,
);
