// A program without a job reports a run. The list and the page of the run follow it without a reload.
import assert from "node:assert/strict";

export default async function ({ task, admin, name, desk }) {
  const page = await desk();
  await page.goto(`${task.url}/runs?q=${name("notebook")}`);
  await page.getByText("No run matches").waitFor();
  await page.evaluate(() => {
    globalThis.sameDocument = true;
  });
  const { run, report } = await admin.outside(name("notebook"));
  const row = page.getByRole("row").filter({ hasText: name("notebook") });
  await row.getByText("Running").waitFor();
  await row.getByText("no job").waitFor();

  const one = await desk();
  await one.goto(`${task.url}/runs/${run.id}`);
  await one.getByText("The run has not reported a value yet").first().waitFor();
  const ts = new Date().toISOString();
  await report("metrics", { points: [0, 1, 2].map((step) => ({ key: "loss", step, value: 1 / (step + 1), ts })) });
  await one.locator("main canvas").first().waitFor();
  await report("lifecycle", { event: "succeeded", ts });
  await one.locator("main").getByText("Succeeded").first().waitFor();
  await page.bringToFront();
  await row.getByText("Succeeded").waitFor();
  assert.ok(await page.evaluate(() => globalThis.sameDocument), "the list was loaded again");
}
