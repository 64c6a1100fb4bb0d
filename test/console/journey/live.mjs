// J4: a job runs. Its state, metrics and samples change on the page without reloading, and a stop of a stopped job is
// refused with its current state.
import assert from "node:assert/strict";
import { beyond, step } from "../browser.mjs";

const training = `
import time, signalbox
with signalbox.init() as run:
    run.starting()
    run.running()
    step = 0
    while not run.should_stop():
        step += 1
        run.log({"beat": step}, step=step)
        if step % 20 == 0:
            run.validation(step=step, samples=[{"user": "6*7?", "assistant": "42", "reward": 1.0}], avg_reward=1.0, accuracy=1.0)
        time.sleep(0.1)
`;

export const statuses = [/^409 POST \/api\/jobs\/job_\w+\/stop$/];

export default async function ({ admin, name, desk, task }) {
  const page = await desk();
  await page.goto(`${task.url}/jobs`);
  await page.getByRole("heading", { name: "Jobs" }).waitFor();
  const job = await admin.command(name("live"), ["python", "-c", training]);
  const row = page.getByRole("row").filter({ hasText: name("live") });
  await row.getByText("Running").waitFor();
  await row.getByRole("link", { name: name("live") }).click();
  await page.getByRole("link", { name: "Metrics", exact: true }).click();
  await page.locator("main canvas").first().waitFor();
  await beyond(page, step, (await beyond(page, step, 0)) + 5);
  await page.getByRole("link", { name: "Samples", exact: true }).click();
  await page.locator("main").getByText("6*7?").first().waitFor();
  await page.locator("main").getByText("42", { exact: true }).first().waitFor();

  await page.getByRole("button", { name: "Stop", exact: true }).click();
  const dialog = page.getByRole("dialog");
  await dialog.waitFor();
  // Someone else stops it first.
  await page.route(/\/api\/jobs\/[^/]+\/stop$/, async (route) => {
    await admin.post(`/api/jobs/${job.id}/stop`);
    await admin.job(job.id, "stopped");
    await route.continue();
  });
  await dialog.getByRole("button", { name: "Stop", exact: true }).click();
  await dialog.getByRole("alert").waitFor();
  assert.match(await dialog.getByRole("alert").innerText(), /ended|stopped|state/i);
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await page.locator("main").getByText("Stopped", { exact: true }).first().waitFor();
}
