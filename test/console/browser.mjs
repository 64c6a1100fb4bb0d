// What the browser tests of the console share: a browser, profiles that record what their pages do, and the checks of
// one page.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { waited } from "./limit.mjs";

const packages = createRequire(process.env.NODE_MODULES + "/");
const { chromium } = packages("playwright-core");
const axe = readFileSync(packages.resolve("axe-core/axe.min.js"), "utf8");

export const start = (executablePath) => chromium.launch({ executablePath, args: ["--no-sandbox"], timeout: 60_000 });

// keysOf returns the keys of the texts below a folder that no sentence can equal: those with a dot.
export function keysOf(folder) {
  const keys = new Set();
  const add = (texts, prefix) => {
    for (const [name, text] of Object.entries(texts)) {
      const key = prefix ? `${prefix}.${name}` : name;
      if (typeof text === "object") add(text, key);
      else if (key.includes(".")) keys.add(key);
    }
  };
  for (const file of readdirSync(folder, { recursive: true })) {
    const path = join(folder, file);
    if (/(^|[/.])en\.json$/.test(file) && statSync(path).isFile()) add(JSON.parse(readFileSync(path, "utf8")), "");
  }
  return keys;
}

// profile opens a new browser profile. It records everything that its pages must not do.
export async function profile(browser, task, { scheme = "light", width = 1280, height = 860 } = {}) {
  const context = await browser.newContext({
    colorScheme: scheme,
    locale: "en-GB",
    viewport: { width, height },
    reducedMotion: "reduce",
    permissions: ["clipboard-read", "clipboard-write"],
  });
  context.setDefaultTimeout(task.patience);
  const seen = { console: [], policy: [], elsewhere: [], statuses: [] };
  await context.exposeBinding("told", (_, what) => {
    seen.policy.push(what);
  });
  await context.addInitScript(() => {
    addEventListener("securitypolicyviolation", (e) => globalThis.told(`${e.effectiveDirective} ${e.blockedURI} ${e.sourceFile}`));
  });
  context.on("console", (m) => {
    if (m.type() !== "error" && m.type() !== "warning") return;
    seen.console.push(`${m.text()} (${new URL(m.location().url || task.url).pathname})`);
  });
  context.on("weberror", (e) => seen.console.push(String(e.error())));
  context.on("request", (r) => {
    if (!r.url().startsWith(task.url + "/") && !/^(data|blob):/.test(r.url())) seen.elsewhere.push(r.url());
  });
  context.on("response", (r) => {
    if (r.status() >= 400) seen.statuses.push(`${r.status()} ${r.request().method()} ${new URL(r.url()).pathname}`);
  });
  const page = await context.newPage();
  return { context, page, seen };
}

// repeated are the refused responses after which enter has tried again, such as `429 POST /api/auth/login`. A browser also
// reports them as errors of its page.
export const repeated = [];

// enter presses Enter in a form that sends a request to the path. It tries again while the server has too many sign-ins
// from one address.
export async function enter(page, path) {
  for (let tries = 1; ; tries++) {
    const answered = page.waitForResponse((response) => response.request().method() === "POST" && new URL(response.url()).pathname === path);
    await page.keyboard.press("Enter");
    const response = await answered;
    const seen = `${response.status()} POST ${path}`;
    if (!(await waited(seen, response.headers()["retry-after"], tries))) return;
    repeated.push(seen);
    // The form counts the seconds itself, and ignores Enter until then.
    await page.locator("button[type=submit][aria-disabled=true]:visible").waitFor({ state: "hidden" });
  }
}

// signIn signs in on the login page and follows its link to the path.
export async function signIn(page, task, path = "/jobs") {
  await page.goto(`${task.url}/login?next=${encodeURIComponent(path)}`);
  await page.locator("#username").fill(task.username);
  await page.locator("#password").fill(task.password);
  await enter(page, "/api/auth/login");
  await page.waitForURL((url) => url.pathname !== "/login");
  await settle(page);
}

// settle waits until the screen has a heading and shows no place that waits for data.
export async function settle(page) {
  await page.locator("main h1:visible").first().waitFor();
  await page.waitForFunction(() => document.querySelectorAll("main .skeleton, main [aria-busy=true]").length === 0);
  await page.evaluate(() => document.fonts.ready);
}

// beyond waits until a number that the pattern finds on the page is larger than `least`, and returns the largest one.
export const beyond = (page, pattern, least) =>
  page
    .waitForFunction(
      ([source, n]) => {
        const text = document.querySelector("main")?.innerText ?? "";
        const found = [...text.matchAll(new RegExp(source, "g"))].map((m) => Number(m[1].replaceAll(",", "")));
        return Math.max(0, ...found) > n ? Math.max(...found) : 0;
      },
      [pattern, least],
    )
    .then((found) => found.jsonValue());

// The number of a step in a chart.
export const step = "step ([\\d,]+)";

// faults returns the violations that axe finds on the page. The policy of the page does not apply to the debugger.
export async function faults(context, page) {
  const protocol = await context.newCDPSession(page);
  await protocol.send("Runtime.evaluate", { expression: axe, allowUnsafeEvalBlockedByCSP: true });
  const { result } = await protocol.send("Runtime.evaluate", {
    expression: "axe.run().then((r) => JSON.stringify(r.violations.map((v) => v.id + ': ' + v.nodes.map((n) => n.html).join(' | ').slice(0, 600))))",
    awaitPromise: true,
    returnByValue: true,
  });
  await protocol.detach();
  return JSON.parse(result.value);
}

// rawKeys returns the texts of the page that are keys of texts, or values that a page writes by mistake.
export const rawKeys = (page, keys) =>
  page.evaluate((all) => {
    const known = new Set(all);
    const found = [];
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
      const text = walk.currentNode.textContent.trim();
      if (known.has(text) || /\bundefined\b|\[object Object\]/.test(text)) found.push(text);
    }
    for (const e of document.querySelectorAll("[aria-label],[title],[placeholder]")) {
      for (const name of ["aria-label", "title", "placeholder"]) if (known.has(e.getAttribute(name))) found.push(e.getAttribute(name));
    }
    return found;
  }, [...keys]);

// wide returns by how many pixels the page is wider than the window, or a part that scrolls downwards wider than its room.
// Tables and code are in parts of their own, whose class shows that they scroll sideways.
export const wide = (page) =>
  page.evaluate(() => {
    const down = [...document.querySelectorAll("main, main [class*=overflow-y-auto]")];
    const parts = [document.documentElement, ...down.filter((part) => !/overflow(-x)?-(auto|hidden)/.test(part.className))];
    return Math.max(...parts.map((part) => part.scrollWidth - part.clientWidth));
  });

// cutTables returns the tables that are wider than their room, with the names of the columns that are out of view.
export const cutTables = (page) =>
  page.evaluate(() => {
    const found = [];
    for (const table of document.querySelectorAll("main [role=grid], main table")) {
      const room = table.parentElement.getBoundingClientRect().right;
      const cells = [...table.querySelectorAll("[role=columnheader], thead th, [role=row]:nth-child(1) button")];
      const cut = cells.filter((cell) => cell.getBoundingClientRect().right > room + 1).map((cell) => cell.textContent || cell.ariaLabel);
      if (cut.length > 0) found.push(`${table.getAttribute("aria-label") ?? "a table"}: ${cut.join(", ")}`);
    }
    return found;
  });

// hiddenTabs returns the active tabs that are not in view, because a narrow window cuts the strip that they are in.
export const hiddenTabs = (page) =>
  page.evaluate(() => {
    const cut = (tab) => {
      const [{ left, right }, strip] = [tab.getBoundingClientRect(), tab.parentElement.getBoundingClientRect()];
      return left < strip.left - 1 || right > strip.right + 1;
    };
    const active = document.querySelectorAll("main [role=tab][data-state=active], main nav a[data-status=active]");
    return [...active].filter(cut).map((tab) => tab.textContent);
  });
