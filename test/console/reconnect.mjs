// This program follows the log of a running job and fills in a form while all processes of the server are killed and
// started again: it sends a request to task.control, which returns when the server is back. It prints the lines that the
// page shows afterwards, which consolefailure_test.go checks.
import assert from "node:assert/strict";
import { text } from "node:stream/consumers";
import { beyond, profile, settle, signIn, start, step } from "./browser.mjs";
import { beat, Server } from "./server.mjs";

const task = JSON.parse(await text(process.stdin));
const browser = await start(task.chromium);
const saw = { lines: [] };
const allowed = /^Failed to load resource: (net::ERR_|the server responded with a status of (502|503) )/;

const rows = (page) =>
  page.evaluate(() => [...document.querySelectorAll("main [data-line]")].map((row) => ({ seq: Number(row.dataset.line), text: row.innerText })));

// The number of a line of the job.
const line = " counts (\\d+)";

try {
  const { context, page, seen } = await profile(browser, task);
  await signIn(page, task, `/jobs?q=${task.ids.counter}`);
  // The sign-in page looks for a session, which is a 401.
  seen.console.length = 0;
  await page.getByRole("link", { name: task.ids.counter }).first().click();
  await page.getByRole("link", { name: "Logs", exact: true }).click();
  const before = await beyond(page, line, 10);
  // What the page has must not be read again.
  await page.evaluate(() => {
    globalThis.sameDocument = true;
  });
  // A table and a chart are followed beside the log.
  const name = `beat-${task.ids.counter}`;
  const admin = await new Server(task.url, task.username, task.password).signIn();
  const job = await admin.command(name, ["python", "-c", beat]);
  await admin.job(job.id, "running");
  const table = await context.newPage();
  await table.goto(`${task.url}/jobs?q=${name}`);
  const state = (text) => table.getByRole("row").filter({ hasText: name }).getByText(text, { exact: true });
  await state("Running").waitFor();
  const chart = await context.newPage();
  await chart.goto(`${task.url}/jobs/${job.id}/metrics`);
  const stepBefore = await beyond(chart, step, 5);
  for (const tab of [table, chart]) await tab.evaluate(() => (globalThis.sameDocument = true));

  const form = await context.newPage();
  await form.goto(`${task.url}/projects`);
  await settle(form);
  await form.getByRole("button", { name: "New project" }).click();
  const dialog = form.getByRole("dialog");
  await dialog.getByLabel("Name").fill("kept while the server is away");
  await dialog.getByLabel("Key").fill(`kept-${Date.now().toString(36)}`);
  await page.bringToFront();

  const back = await fetch(task.control, { method: "POST" });
  assert.equal(back.status, 200);
  const last = await beyond(page, line, before + 40);
  assert.ok(await page.evaluate(() => globalThis.sameDocument), "the page was not loaded again");
  await page.getByText("Connection lost").first().waitFor({ state: "detached" });

  await beyond(chart, step, stepBefore + 40);
  await admin.signIn();
  await admin.post(`/api/jobs/${job.id}/stop`);
  await state("Stopped").waitFor();
  const ended = await admin.job(job.id, "stopped", "succeeded");
  const points = await admin.until(`/api/runs/${ended.run_id}/metrics?keys=beat`, (all) => all.length > 0);
  const steps = points[0].points.map((point) => point.step);
  assert.deepEqual(steps, steps.map((_, at) => at + 1), "points are missing or twice");
  await chart.getByText(`${steps.length} points`, { exact: true }).waitFor();
  for (const tab of [table, chart]) assert.ok(await tab.evaluate(() => globalThis.sameDocument), "a page was loaded again");

  await page.getByRole("region", { name: "Log" }).focus();
  await page.keyboard.press("Home");
  await page.locator("main [data-line='1']").waitFor();
  const lines = new Map();
  while (!lines.has(last)) {
    for (const row of await rows(page)) if (/ counts \d+/.test(row.text)) lines.set(row.seq, row.text);
    await page.keyboard.press("PageDown");
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
  }
  saw.lines = [...lines].sort((a, b) => a[0] - b[0]).map(([seq, text]) => ({ seq, text }));

  await form.bringToFront();
  assert.equal(await dialog.getByLabel("Name").inputValue(), "kept while the server is away");
  await dialog.getByRole("button", { name: "Create" }).click();
  await form.getByRole("heading", { name: "kept while the server is away" }).or(form.getByRole("link", { name: "kept while the server is away" })).first().waitFor();
  saw.console = seen.console.filter((line) => !allowed.test(line));
  console.log(JSON.stringify(saw));
} catch (error) {
  for (const [at, page] of browser.contexts().flatMap((c) => c.pages()).entries()) await page.screenshot({ path: `${task.out}/reconnect-failed-${at}.png` });
  throw error;
} finally {
  await browser.close();
}
