// This program shows each error of the API, a session that ends, and the maintenance mode on pages of the console. It
// prints what it saw as one JSON object, which consolefailure_test.go checks.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { text } from "node:stream/consumers";
import { profile, settle, signIn, start } from "./browser.mjs";
import { Server } from "./server.mjs";

const task = JSON.parse(await text(process.stdin));
const browser = await start(task.chromium);
const admin = await new Server(task.url, task.username, task.password).signIn();
mkdirSync(task.out, { recursive: true });
const problems = [];

// The errors of the table. detail has both forms: a sentence, and a list of problems.
const errors = [
  { status: 400, code: "schema", shows: "The submission has fields that are not valid." },
  { status: 403, code: "not_editor", shows: "You need the role editor in the project." },
  { status: 404, code: null, shows: "This does not exist, or you may not see it." },
  { status: 409, code: "concurrent_change", shows: "Two changes happened at the same time. Try again." },
  { status: 413, code: null, shows: "This is too large." },
  { status: 422, code: null, shows: "Some values are not valid. The details name them.", detail: [{ loc: ["query", "limit"], msg: "not a number", type: "int_parsing" }] },
  { status: 429, code: null, shows: "Too many requests. Try again in 1 s." },
  { status: 500, code: null, shows: "Signalbox failed. Try once more, then report it with the details." },
  { status: 501, code: null, shows: "This is not set up in this installation. An admin can set it up." },
  { status: 502, code: null, shows: "A part of Signalbox did not respond properly. Try again later." },
  { status: 503, code: "maintenance", shows: "The installation is in maintenance. Try again later." },
];
// pages with the requests that fail on them: a live list, a list and an object.
const pages = [
  { path: "/jobs", fails: /\/api\/jobs(\/stream)?(\?|$)/ },
  { path: "/models", fails: /\/api\/models(\?|$)/ },
  { path: `/deployments/${task.ids.deployment}`, fails: /\/api\/model-deployments\/dep_\w+(\?|$)/ },
];

const failedLoad = /^Failed to load resource: the server responded with a status of (\d{3}) /;

async function refused(tab, page, error) {
  const where = `${error.status} on ${page.path}`;
  for (const list of Object.values(tab.seen)) list.length = 0;
  await tab.page.route(page.fails, (route) =>
    route.fulfill({
      status: error.status,
      headers: { "Retry-After": "1", "X-Request-Id": "req_of_this_test" },
      json: { detail: error.detail ?? "the sentence of the server", ...(error.code ? { code: error.code } : {}) },
    }),
  );
  try {
    await tab.page.goto(task.url + page.path);
    const alert = tab.page.locator("main").getByRole("alert").filter({ hasText: error.shows });
    await alert.first().waitFor();
    await alert.first().getByText("Details", { exact: true }).click();
    await alert.first().getByText("req_of_this_test").waitFor();
    const others = tab.seen.console.filter((line) => failedLoad.exec(line)?.[1] !== String(error.status));
    assert.deepEqual([...others, ...tab.seen.policy], []);
    await tab.page.unroute(page.fails);
    const again = tab.page.getByRole("button", { name: "Try again" });
    if (await again.count()) {
      await again.first().click();
      await alert.first().waitFor({ state: "detached" });
      await tab.page.locator("main h1").first().waitFor();
    } else {
      assert.ok(page.path === "/jobs", `${where}: the user can try again`);
    }
  } catch (thrown) {
    problems.push(`${where}: ${String(thrown).slice(0, 600)}`);
    await tab.page.screenshot({ path: `${task.out}/state-${error.status}.png` });
    await tab.page.unroute(page.fails);
  }
}

// expired lets the access token and the session end while a form is filled. The form is kept while a refresh helps;
// without a session, the sign-in page leads back to the page.
async function expired(tab) {
  const { page } = tab;
  await page.goto(`${task.url}/projects`);
  await settle(page);
  await page.getByRole("button", { name: "New project" }).click();
  const name = page.getByRole("dialog").getByLabel("Name");
  await name.fill("A name that is kept");
  let refusals = 0;
  await page.route(/\/api\/projects$/, async (route) => {
    if (route.request().method() !== "POST" || refusals > 0) return route.continue();
    refusals++;
    return route.fulfill({ status: 401, json: { detail: "the access token has expired", code: "token_expired" } });
  });
  await page.getByRole("dialog").getByLabel("Key").fill(`kept-${Date.now().toString(36)}`);
  await page.getByRole("dialog").getByRole("button", { name: /Create/ }).click();
  await page.getByText("A name that is kept").first().waitFor();
  assert.equal(refusals, 1, "one refresh, then the form was sent again");
  await page.unroute(/\/api\/projects$/);
}

// stale lets a list fail that was read before. Its rows stay, and the page shows that they may be old until they are not.
async function stale(tab) {
  const { page } = tab;
  await page.goto(`${task.url}/deployments`);
  await settle(page);
  const row = page.getByRole("gridcell").first();
  await row.waitFor();
  const fails = /\/api\/model-deployments\?/;
  await page.route(fails, (route) => route.fulfill({ status: 403, json: { detail: "no" } }));
  const notice = page.getByRole("status").filter({ hasText: "A part of this page could not be read again." });
  await notice.waitFor();
  assert.ok(await row.isVisible(), "the rows stay");
  await page.unroute(fails);
  await notice.getByRole("button", { name: "Try again" }).click();
  await notice.waitFor({ state: "detached" });
}

async function signedOut(tab) {
  const { page } = tab;
  await page.goto(`${task.url}/models?q=x`);
  await settle(page);
  await page.route(/\/api\/(models|auth\/refresh)/, (route) => route.fulfill({ status: 401, json: { detail: "the session is over", code: "bad_refresh" } }));
  await page.getByRole("textbox", { name: /Filter/ }).fill("other");
  await page.waitForURL((url) => url.pathname === "/login");
  assert.match(new URL(page.url()).searchParams.get("next") ?? "", /^\/models/);
  await page.unroute(/\/api\/(models|auth\/refresh)/);
}

// offline cuts the browser off. The page shows that, keeps what it has, and is live again afterwards.
async function offline(tab) {
  const { page, context } = tab;
  const name = `offline-${Date.now().toString(36)}`;
  await page.goto(`${task.url}/jobs?q=${name}`);
  await page.getByText("No job matches").waitFor();
  await page.evaluate(() => {
    globalThis.sameDocument = true;
  });
  await context.setOffline(true);
  const notice = page.getByText("This device is offline.");
  await notice.first().waitFor();
  const job = await admin.command(name, ["echo", "hello"]);
  await admin.job(job.id, "succeeded", "failed");
  await context.setOffline(false);
  await notice.first().waitFor({ state: "detached" });
  await page.getByRole("row").filter({ hasText: name }).waitFor();
  assert.ok(await page.evaluate(() => globalThis.sameDocument), "the page was loaded again");
}

// maintenance turns the real mode on and off. Another user sees the message on every page, not a blank one.
async function maintenance(tab) {
  await admin.post("/api/admin/maintenance", { mode: "maintenance", message: "The database moves tonight." });
  try {
    for (const path of ["/jobs", "/models", `/deployments/${task.ids.deployment}`]) {
      await tab.page.goto(task.url + path);
      await tab.page.getByText("The database moves tonight.").first().waitFor();
      assert.ok((await tab.page.locator("body").innerText()).trim().length > 20, `${path} is blank in maintenance`);
    }
    const version = await admin.send("GET", "/api/version");
    assert.equal(version.status, 200);
  } finally {
    await admin.post("/api/admin/maintenance", { mode: "off" });
  }
}

try {
  const tab = await profile(browser, task);
  await signIn(tab.page, task);
  for (const page of pages) for (const error of errors) if (!task.statuses?.length || task.statuses.includes(error.status)) await refused(tab, page, error);
  for (const step of [expired, stale, offline, maintenance, signedOut]) {
    await step(tab).catch(async (thrown) => {
      problems.push(`${step.name}: ${String(thrown?.stack ?? thrown).slice(0, 800)}`);
      await tab.page.screenshot({ path: `${task.out}/state-${step.name}.png` });
    });
  }
  console.log(JSON.stringify({ problems }));
} finally {
  await browser.close();
}
