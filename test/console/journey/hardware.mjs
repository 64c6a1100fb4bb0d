// J11: an admin removes a hardware profile that a running job uses. The impact must be confirmed, and the audit log has
// the change.
import assert from "node:assert/strict";
import { settle } from "../browser.mjs";

export const statuses = [/^409 PUT \/api\/admin\/hardware\/config$/];

const profile = (key) => ({ series: [{ key: "cpu", model: "any", vram_gb: 0 }], profiles: [{ key, series: "cpu", gpus_per_node: 0, max_nodes: 1 }] });

async function edit(page, config) {
  await page.getByRole("button", { name: "Edit" }).click();
  await page.getByLabel("Configuration as JSON").fill(JSON.stringify(config));
  await page.getByRole("button", { name: "Review the change" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
}

export default async function ({ task, admin, name, desk }) {
  const page = await desk();
  await page.goto(`${task.url}/admin/hardware`);
  await settle(page);
  await edit(page, profile(name("small")));
  await page.getByText("The configuration is in force.").first().waitFor();
  await page.getByText(name("small")).first().waitFor();
  const job = await admin.command(name("profiled"), ["sleep", "600"], { pool: { profile: name("small") } });
  await admin.job(job.id, "running");

  await page.reload();
  await settle(page);
  await edit(page, { series: [], profiles: [] });
  const dialog = page.getByRole("dialog");
  await dialog.getByText("The change affects unfinished jobs").waitFor();
  assert.match(await dialog.innerText(), new RegExp(`1 running job uses profile ${name("small")}`));
  assert.equal((await admin.get("/api/admin/hardware/config")).profiles.length, 1, "nothing is stored before it is confirmed");
  await dialog.getByRole("button", { name: "Store it anyway" }).click();
  await page.getByText("No hardware is configured").waitFor();
  await admin.post(`/api/jobs/${job.id}/stop`);

  await page.goto(`${task.url}/admin/audit`);
  await page.getByRole("row").filter({ hasText: /hardware/ }).first().waitFor();
}
