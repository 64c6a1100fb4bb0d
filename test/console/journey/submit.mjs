// A user submits a job in the form of the page, sees that the checks pass, and reads what it printed. The list clones it.
import assert from "node:assert/strict";
import { settle } from "../browser.mjs";

export default async function ({ task, admin, name, desk }) {
  const page = await desk();
  await page.goto(`${task.url}/submit?recipe=custom/custom`);
  await settle(page);
  await page.getByLabel("Name", { exact: true }).fill(name("typed"));
  await page.getByLabel("Command", { exact: true }).fill(`echo "hello from the form"`);
  await page.getByText("would be admitted").waitFor();
  await page.getByRole("button", { name: "Submit", exact: true }).click();
  await page.waitForURL(/\/jobs\/job_/);
  const id = /job_\w+/.exec(page.url())[0];
  const job = await admin.get(`/api/jobs/${id}`);
  assert.deepEqual(job.spec.source.command, ["echo", "hello from the form"]);
  await page.locator("main").getByText("Succeeded", { exact: true }).first().waitFor();
  await page.getByText("hello from the form").first().waitFor();

  await page.goto(`${task.url}/jobs?q=${name("typed")}`);
  await page.getByRole("button", { name: `Actions for ${name("typed")}` }).click();
  await page.getByRole("menuitem", { name: "Clone" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name", { exact: true }).fill(name("cloned"));
  await dialog.getByRole("button", { name: "Clone" }).click();
  await page.waitForURL((url) => /\/jobs\/job_/.test(url.pathname) && !url.pathname.includes(id));
  await page.getByRole("heading", { name: name("cloned") }).waitFor();
}
