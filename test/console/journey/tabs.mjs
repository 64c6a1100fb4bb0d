// Four tabs of one user stay live beside each other. A tab opens one event stream at most; a hidden tab closes its own, and
// continues without a gap when it is shown. Signing out in one tab signs out all.
import assert from "node:assert/strict";
import { beyond, step } from "../browser.mjs";
import { beat } from "../server.mjs";

// The sign-in page looks for a session, and requests that are under way when the user signs out are refused.
export const statuses = [/^401 POST \/api\/auth\/refresh$/, /^401 GET /];

// Streams counts the event streams of a page that are open.
class Streams {
  open = 0;

  constructor(page) {
    const stream = (request) => /\/stream(\?|$)/.test(request.url());
    page.on("request", (request) => stream(request) && this.open++);
    for (const end of ["requestfinished", "requestfailed"]) page.on(end, (request) => stream(request) && this.open--);
  }
}

const show = (page, state) =>
  page.evaluate((value) => {
    Object.defineProperty(document, "visibilityState", { value, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, state);

const until = async (condition, what) => {
  const deadline = Date.now() + 30_000;
  while (!condition()) {
    assert.ok(Date.now() < deadline, `not within 30 seconds: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
};

const line = "line (\\d+)";
// The height of a line of the log in pixels.
const rowHeight = 18;

export default async function ({ task, admin, name, stranger, signIn }) {
  const job = await admin.command(name("tabs"), ["python", "-c", beat]);
  await admin.job(job.id, "running");
  const first = await stranger();
  await signIn(first);
  const pages = [];
  for (let at = 0; at < 4; at++) pages.push(await first.context().newPage());
  const [list, metrics, log, overview] = pages;
  const streams = pages.map((page) => new Streams(page));
  await list.goto(`${task.url}/jobs?q=${name("tabs")}`);
  await metrics.goto(`${task.url}/jobs/${job.id}/metrics`);
  await log.goto(`${task.url}/jobs/${job.id}/logs`);
  await overview.goto(`${task.url}/runs/${job.run_id}`);

  await list.getByRole("row").filter({ hasText: name("tabs") }).getByText("Running").waitFor();
  for (const [page, pattern] of [[metrics, step], [log, line], [overview, step]]) {
    const seen = await beyond(page, pattern, 0);
    await beyond(page, pattern, seen + 10);
  }
  await until(() => streams.every(({ open }) => open === 1), "each tab has one stream");

  await show(log, "hidden");
  await until(() => streams[2].open === 0, "a hidden tab closes its stream");
  const hidden = await beyond(log, line, 0);
  await beyond(metrics, step, await beyond(metrics, step, 0) + 10);
  await show(log, "visible");
  await beyond(log, line, hidden + 20);
  // The log continues while it is read, so that the last line of before may be far above.
  await log.getByRole("button", { name: "Follow new lines" }).click();
  await log.getByRole("region", { name: "Log", exact: true }).evaluate((region, top) => region.scrollTo(0, top), (hidden - 10) * rowHeight);
  await log.locator(`main [data-line='${hidden}']`).waitFor();
  const lines = await log.evaluate(() => [...document.querySelectorAll("main [data-line]")].map((row) => Number(row.dataset.line)));
  assert.deepEqual(lines, lines.map((_, at) => lines[0] + at), "lines are missing or twice");
  assert.ok(lines.includes(hidden), "the lines of before are shown");

  await admin.post(`/api/jobs/${job.id}/stop`);
  await list.bringToFront();
  await list.getByRole("row").filter({ hasText: name("tabs") }).getByText("Stopped", { exact: true }).waitFor();
  await log.getByText("Log complete").waitFor();
  await list.getByRole("button", { name: /^Account/ }).click();
  await list.getByRole("menuitem", { name: "Sign out" }).click();
  for (const page of pages) await page.waitForURL((url) => url.pathname === "/login");
}
