// J5: fifty runs over each other. Only what differs is shown, each run has a colour and a dash of its own that a reload
// keeps, the values at the cursor and in the table are those of the runs, two runs have their responses and the ends of their
// logs side by side, and the address reproduces the view.
import assert from "node:assert/strict";

const count = 50;
const steps = 200;
const lossOf = (at, step) => (at * 1000) / (step + 1);

const colours = (page) => page.getByRole("list", { name: "Compared runs" }).evaluate((list) => [...list.querySelectorAll("li")].filter((li) => li.querySelector("[aria-hidden]")).map((li) => [li.innerText.split("\n")[0], getComputedStyle(li.querySelector("[aria-hidden]")).backgroundColor + li.querySelector("[aria-hidden]").outerHTML]));

// reportRun reports a whole run without a job.
async function reportRun(admin, name, at) {
  const { run, report } = await admin.outside(name);
  const ts = new Date().toISOString();
  await report("hparams", { params: { lr: at / 1000, depth: 12 } });
  await report("metrics", { points: Array.from({ length: steps }, (_, step) => ({ key: "train/loss", step, value: lossOf(at, step), ts })) });
  // Both prompts are in all runs; only the response to the second one differs.
  const samples = [
    { user: "1+2?", assistant: "3", reward: 1 },
    { user: "27+46?", assistant: `the sum is ${at}`, reward: 0 },
  ];
  await report("validation", { step: steps, avg_reward: 0.5, samples });
  await report("logs", { chunks: [`the last words of ${name}\n`] });
  await report("lifecycle", { event: "succeeded", ts });
  return run.id;
}

// readTable opens the table of a chart by the keyboard and checks its last row.
async function readTable(page, card, name) {
  await card.getByRole("button", { name: "Actions for train/loss" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("menuitem", { name: "Table of values" }).waitFor();
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog", { name: "train/loss" });
  const grid = dialog.getByRole("grid", { name: "train/loss" });
  await grid.getByRole("columnheader", { name: name(`rate${count}`), exact: true }).waitFor();
  assert.equal(await grid.getByRole("columnheader").count(), 1 + count, "a column for each run");
  await grid.getByRole("row").nth(1).focus();
  await page.keyboard.press("End");
  const cells = await grid.locator(`[data-row='${steps - 1}']`).getByRole("gridcell").allInnerTexts();
  assert.deepEqual(cells.map((text) => Number(text.replaceAll(",", ""))), [steps - 1, ...Array.from({ length: count }, (_, at) => lossOf(at + 1, steps - 1))]);
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
}

// readSideBySide checks the responses and the ends of the logs of two runs.
async function readSideBySide(page, name) {
  await page.getByRole("tab", { name: "Samples" }).click();
  await page.getByText("1 of 2 prompts").waitFor();
  const prompt = page.getByRole("article", { name: "Prompt" });
  assert.match(await prompt.innerText(), /27\+46\?[^]*the sum is 1[^]*the sum is 2$/);
  assert.deepEqual(await prompt.locator("ins, del").allInnerTexts(), ["1", "2"], "the words that differ are marked");
  await page.getByRole("checkbox", { name: "Only differences" }).click();
  await page.getByText("2 of 2 prompts").waitFor();
  await page.getByRole("combobox", { name: "Compared with the baseline" }).click();
  await page.getByRole("option", { name: name("rate7"), exact: true }).click();
  await prompt.filter({ hasText: "the sum is 7" }).waitFor();
  await page.getByRole("tab", { name: "Logs" }).click();
  for (const run of ["rate1", "rate7"]) await page.getByRole("region", { name: `End of the log of ${name(run)}`, exact: true }).getByText(`the last words of ${name(run)}`).waitFor();
}

export default async function ({ task, admin, name, desk }) {
  const ids = [];
  for (let at = 1; at <= count; at++) ids.push(await reportRun(admin, name(`rate${at}`), at));

  const page = await desk();
  await page.goto(`${task.url}/runs?q=${name("").slice(1)}`);
  for (const at of [count, count - 1]) await page.getByRole("checkbox", { name: `Select ${name(`rate${at}`)}`, exact: true }).click();
  await page.getByRole("toolbar", { name: "Selected runs" }).getByRole("button", { name: "Compare" }).click();
  await page.locator("main canvas").first().waitFor();

  await page.goto(`${task.url}/compare?runs=${ids.join(",")}`);
  const card = page.getByRole("article", { name: "train/loss", exact: true });
  await card.locator("canvas").waitFor();
  await page.getByRole("button", { name: "and 38 more" }).click();
  const before = await colours(page);
  assert.equal(before.length, count);
  assert.equal(new Set(before.map(([, colour]) => colour)).size, count, "each run has a colour or dash of its own");
  await card.scrollIntoViewIfNeeded();
  const box = await card.locator(".u-over").boundingBox();
  await page.mouse.move(box.x + box.width - 1, box.y + box.height / 2);
  const legend = card.getByRole("list");
  await legend.getByText("and 40 more").waitFor();
  const top = await legend.getByRole("listitem").first().innerText();
  assert.match(top, new RegExp(name(`rate${count}`)));
  assert.equal(Number(top.split("\n").at(-1).replaceAll(",", "")), lossOf(count, steps - 1));
  await page.mouse.move(0, 0);
  await readTable(page, card, name);
  await page.reload();
  await card.locator("canvas").waitFor();
  await page.getByRole("button", { name: "and 38 more" }).click();
  assert.deepEqual(await colours(page), before, "a reload keeps the colours");

  const grouped = await desk();
  await grouped.goto(`${task.url}/compare?runs=${ids.slice(0, 3).join(",")}&group=depth`);
  await grouped.getByRole("article", { name: "train/loss", exact: true }).getByText(/^means of 3 runs/).waitFor();
  const chips = await colours(grouped);
  assert.equal(chips.length, 3);
  assert.equal(new Set(chips.map(([, colour]) => colour)).size, 1, "the runs of a group have the colour of its line");

  await page.getByRole("tab", { name: "Parameters" }).click();
  const table = page.getByRole("table");
  await table.getByText("lr", { exact: true }).waitFor();
  assert.equal(await table.getByText("depth", { exact: true }).count(), 0, "equal parameters are hidden");
  await page.getByRole("checkbox", { name: "Only differences" }).click();
  await table.getByText("depth", { exact: true }).waitFor();

  const again = await desk();
  await again.goto(page.url());
  await again.getByRole("table").getByText("depth", { exact: true }).waitFor();
  await page.getByRole("checkbox", { name: "Only differences" }).click();
  await readSideBySide(page, name);
}
