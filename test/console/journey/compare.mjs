// J5: ten runs over each other. Only what differs is shown, each run has a colour of its own that a reload keeps, and
// the address reproduces the view.
import assert from "node:assert/strict";

const training = `
import sys, signalbox
rate = float(sys.argv[1])
with signalbox.init() as run:
    run.starting()
    run.hparams({"lr": rate, "depth": 12})
    run.running()
    for step in range(200):
        run.log({"train": {"loss": rate * 1000 / (step + 1)}}, step=step)
`;
const count = 10;

const colours = (page) => page.getByRole("list", { name: "Compared runs" }).evaluate((list) => [...list.children].map((li) => [li.innerText.split("\n")[0], getComputedStyle(li.querySelector("[aria-hidden]")).backgroundColor + li.querySelector("[aria-hidden]").outerHTML]));

export default async function ({ task, admin, name, desk }) {
  const jobs = [];
  for (let at = 1; at <= count; at++) jobs.push(await admin.command(name(`rate${at}`), ["python", "-c", training, String(at / 1000)]));
  for (const job of jobs) assert.equal((await admin.job(job.id, "succeeded", "failed", "stopped")).state, "succeeded");

  const page = await desk();
  await page.goto(`${task.url}/runs?q=${name("").slice(1)}`);
  for (let at = 1; at <= count; at++) await page.getByRole("checkbox", { name: `Select ${name(`rate${at}`)}`, exact: true }).click();
  await page.getByRole("toolbar", { name: "Selected runs" }).getByRole("button", { name: "Compare" }).click();
  await page.locator("main canvas").first().waitFor();
  const before = await colours(page);
  assert.equal(before.length, count);
  assert.equal(new Set(before.map(([, colour]) => colour)).size, count, "each run has a colour of its own");
  await page.reload();
  await page.locator("main canvas").first().waitFor();
  assert.deepEqual(await colours(page), before, "a reload keeps the colours");

  await page.getByRole("tab", { name: "Parameters" }).click();
  const table = page.getByRole("table");
  await table.getByText("lr", { exact: true }).waitFor();
  assert.equal(await table.getByText("depth", { exact: true }).count(), 0, "equal parameters are hidden");
  await page.getByRole("checkbox", { name: "Only differences" }).click();
  await table.getByText("depth", { exact: true }).waitFor();

  const again = await desk();
  await again.goto(page.url());
  await again.getByRole("table").getByText("depth", { exact: true }).waitFor();
  assert.equal((await colours(again)).length, count, "the address reproduces the view");
}
