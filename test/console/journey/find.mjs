// A user signs in by a link, finds the run that trained, reads its curve by value, and goes from a point of the curve to
// what the log showed then. A colleague, who has the list and the job open, sees a job stop without a reload.
import assert from "node:assert/strict";
import { settle, signIn } from "../browser.mjs";

// The sign-in page looks for a session.
export const statuses = [/^401 POST \/api\/auth\/refresh$/];

// reading is the value and the step in the head of a chart.
const reading = async (card) => {
  const text = await card.locator("header").innerText();
  const [, value, step] = /([-\d.,e]+)(?: \(.*\))? · steps? ([\d,]+)/.exec(text) ?? [];
  assert.ok(value, `no reading in ${text}`);
  return { value: Number(value.replaceAll(",", "")), step: Number(step.replaceAll(",", "")) };
};

const same = (shown, point) => {
  assert.equal(shown.step, point.step);
  assert.ok(Math.abs(shown.value - point.value) <= Math.abs(point.value) * 1e-4, `${shown.value} is not ${point.value}`);
};

async function signInByLink(page, task) {
  await page.goto(`${task.url}/login?next=${encodeURIComponent(`/jobs/${task.ids.job}`)}#link=${task.ids.link}`);
  await page.waitForURL((url) => url.pathname === `/jobs/${task.ids.job}`);
  await settle(page);
}

async function readCurve(page, task, admin) {
  const [series] = await admin.get(`/api/runs/${task.ids.run}/series?keys=train/loss&points=2000`);
  const points = series.points;
  assert.ok(points.length > 10, "the run has few enough points to be drawn one by one");
  await page.getByRole("link", { name: "Metrics", exact: true }).click();
  await page.getByRole("textbox", { name: "Filter metrics" }).fill("train/loss");
  const card = page.getByRole("article", { name: "train/loss", exact: true });
  await card.locator("canvas").waitFor();
  const chart = card.getByRole("img");
  await chart.focus();
  await page.keyboard.press("End");
  same(await reading(card), points.at(-1));
  await page.keyboard.press("ArrowLeft");
  same(await reading(card), points.at(-2));
  await page.keyboard.press("Home");
  same(await reading(card), points[0]);
  await page.keyboard.press("Enter");
  await card.getByRole("button", { name: /^Log at step/ }).press("Enter");
  await page.waitForURL((url) => /\/logs$/.test(url.pathname) && /^#L\d+$/.test(url.hash));
  const line = /L(\d+)/.exec(page.url())[1];
  await page.locator(`main [data-line='${line}'][aria-current=true]`).waitFor();
}

// zoomOverview zooms into a chart of the overview and out again.
async function zoomOverview(page) {
  await page.getByText("Click a point to read the log at that step.").waitFor();
  const reset = page.getByRole("button", { name: "Reset zoom" });
  assert.equal(await reset.count(), 0);
  await page.getByRole("article").getByRole("img").first().focus();
  await page.keyboard.press("End");
  await page.keyboard.press("+");
  await reset.click();
  await reset.waitFor({ state: "detached" });
}

async function searchLog(page, task, admin) {
  const found = await admin.get(`/api/runs/${task.ids.run}/logs/search?pattern=e&ignore_case=true&limit=500`);
  await page.getByRole("textbox", { name: "Search the whole log (regular expression)" }).fill("e");
  await page.getByRole("search").getByText(`of ${found.lines.length}`).waitFor();
}

// stopSeen stops a job on one page, and waits until a colleague's pages show it. They are not loaded again.
async function stopSeen(page, { task, admin, name, stranger }) {
  const username = name("colleague");
  const made = await admin.post("/api/admin/users", { username, role: "operator", email: `${username}@example.com` });
  const temporary = made.password ?? made.temporary_password;
  const password = "a long password of mine 7";
  const { token } = await admin.post("/api/auth/login", { username, password: temporary });
  const changed = await admin.send("POST", "/api/profile/password", { current_password: temporary, new_password: password }, token);
  assert.ok(changed.ok, await changed.text());
  const job = await admin.command(name("shared"), ["sleep", "600"]);
  await admin.job(job.id, "running");

  const list = await stranger();
  await signIn(list, { ...task, username, password }, `/jobs?q=${name("shared")}`);
  const one = await list.context().newPage();
  await one.goto(`${task.url}/jobs/${job.id}`);
  await one.locator("main").getByText("Running", { exact: true }).first().waitFor();
  const row = list.getByRole("row").filter({ hasText: name("shared") });
  await row.getByText("Running").waitFor();
  for (const tab of [list, one]) await tab.evaluate(() => (globalThis.sameDocument = true));

  await page.goto(`${task.url}/jobs/${job.id}`);
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Stop", exact: true }).click();
  await one.locator("main").getByText("Stopped", { exact: true }).first().waitFor();
  await list.bringToFront();
  await row.getByText("Stopped", { exact: true }).waitFor();
  for (const tab of [list, one]) assert.ok(await tab.evaluate(() => globalThis.sameDocument), "a page was loaded again");
}

export default async function (journey) {
  const { task, admin, stranger } = journey;
  const page = await stranger();
  await signInByLink(page, task);
  await page.locator("main canvas").first().waitFor();
  await page.getByRole("heading", { name: "End of the log" }).waitFor();
  await zoomOverview(page);

  const run = await admin.get(`/api/runs/${task.ids.run}`);
  await page.keyboard.press("Control+k");
  const palette = page.getByRole("dialog");
  await palette.getByRole("combobox").fill(run.name);
  const found = palette.getByRole("option").filter({ has: page.getByText(run.name, { exact: true }) }).filter({ hasText: "Runs" });
  await found.waitFor();
  assert.equal(await palette.getByText(/^Nothing found/).count(), 0, "the palette has results");
  await found.click();
  await page.waitForURL((url) => url.pathname === `/runs/${run.id}`);
  await page.getByRole("heading", { name: run.name }).waitFor();
  const crumbs = page.getByRole("navigation", { name: "Breadcrumbs" }).getByRole("link");
  assert.deepEqual(await crumbs.allInnerTexts(), ["Runs", run.name]);

  await page.goto(`${task.url}/jobs/${task.ids.job}`);
  await readCurve(page, task, admin);
  await searchLog(page, task, admin);
  await stopSeen(page, journey);
}
