// A program without a job reports a run. The list and the page of the run follow it without a reload. The filters that their
// toolbars hide work by the keyboard, and their number stays visible.
import assert from "node:assert/strict";

// choose selects an option of a control in a popover, which stays open.
async function choose(page, box, label, option) {
  await box.getByLabel(label, { exact: true }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("option", { name: option, exact: true }).click();
  assert.ok(await box.isVisible(), "the popover stays open");
}

// leave closes a popover. Its button has the focus then, and shows how many filters are set.
async function leave(page, name, count) {
  await page.keyboard.press("Escape");
  const button = page.getByRole("button", { name: new RegExp(`^${name}\\s*\\(${count} set\\)$`) });
  await button.waitFor();
  assert.ok(await button.evaluate((e) => e === document.activeElement), "the button has the focus again");
}

async function filterRuns(page, row) {
  await page.getByRole("button", { name: "More filters", exact: true }).focus();
  await page.keyboard.press("Enter");
  const box = page.getByRole("dialog", { name: "More filters" });
  await choose(page, box, "Archive", "Archived");
  await page.getByText("No run matches").waitFor();
  await choose(page, box, "Archive", "All");
  await row.waitFor();
  const tag = box.getByLabel("Tag", { exact: true });
  await tag.fill("another");
  await page.keyboard.press("Enter");
  await page.getByText("No run matches").waitFor();
  await box.getByRole("button", { name: "Remove Tag another" }).click();
  await tag.fill("nightly");
  await page.keyboard.press("Enter");
  await row.waitFor();
  await leave(page, "More filters", 2);
}

async function filterLog(page) {
  await page.getByRole("link", { name: "Logs", exact: true }).click();
  const lines = page.locator("main [data-line]");
  await lines.filter({ hasText: "quiet" }).waitFor();
  await page.getByRole("button", { name: "Filters", exact: true }).focus();
  await page.keyboard.press("Enter");
  await choose(page, page.getByRole("dialog", { name: "Filters" }), "Level", "Errors");
  await lines.filter({ hasText: "quiet" }).waitFor({ state: "detached" });
  await lines.filter({ hasText: "loud" }).waitFor();
  await leave(page, "Filters", 1);
}

export default async function ({ task, admin, name, desk }) {
  const page = await desk();
  await page.goto(`${task.url}/runs?q=${name("notebook")}`);
  await page.getByText("No run matches").waitFor();
  await page.evaluate(() => {
    globalThis.sameDocument = true;
  });
  const { run, report } = await admin.outside(name("notebook"), { tags: ["nightly"] });
  const row = page.getByRole("row").filter({ hasText: name("notebook") });
  await row.getByText("Running").waitFor();
  await row.getByText("no job").waitFor();

  const one = await desk();
  await one.goto(`${task.url}/runs/${run.id}`);
  await one.getByText("The run has not reported a value yet").first().waitFor();
  const ts = new Date().toISOString();
  await report("metrics", { points: [0, 1, 2].map((step) => ({ key: "loss", step, value: 1 / (step + 1), ts })) });
  await one.locator("main canvas").first().waitFor();
  await report("logs", { chunks: ["INFO quiet\nERROR loud\n"] });
  await report("lifecycle", { event: "succeeded", ts });
  await one.locator("main").getByText("Succeeded").first().waitFor();
  await page.bringToFront();
  await row.getByText("Succeeded").waitFor();
  assert.ok(await page.evaluate(() => globalThis.sameDocument), "the list was loaded again");
  await filterRuns(page, row);
  await one.bringToFront();
  await filterLog(one);
}
