// J13: an admin sets how a pool runs on Slurm, and sees that its test has passed and which job Slurm holds, and why. The page
// of the job and the queue have the same reason.
import assert from "node:assert/strict";
import { faults, settle } from "../browser.mjs";

async function set(page, pool, values) {
  await page.getByRole("button", { name: `Settings of the pool ${pool}` }).press("Enter");
  const dialog = page.getByRole("dialog");
  for (const [label, value] of Object.entries(values)) await dialog.getByLabel(label).fill(value);
  await dialog.getByRole("button", { name: "Save" }).click();
}

export const statuses = [/^422 PATCH \/api\/cluster\/pools\//];

export default async function ({ task, admin, name, desk, phone }) {
  const { slurmFleet, slurmPool: pool, slurmFolder: folder } = task.ids;
  const page = await desk();
  await page.goto(`${task.url}/fleets`);
  await page.getByRole("button", { name: "New fleet" }).click();
  const made = page.getByRole("dialog");
  await made.getByLabel("Name").fill(name("cluster"));
  await made.getByLabel("Kind").click();
  await page.getByRole("option", { name: "Slurm" }).click();
  await made.getByLabel("Pools").fill(name("pool"));
  await made.getByRole("button", { name: "Create" }).click();
  await page.getByText("No agent has reported this cluster yet.").waitFor();
  await page.getByRole("cell", { name: "No settings" }).waitFor();

  await page.goto(`${task.url}/fleets/${slurmFleet}`);
  const partitions = page.getByRole("region", { name: "Partitions" });
  // A job of another user holds the GPU.
  await partitions.getByRole("row", { name: /^gpu up 1 .*1 of 1/ }).waitFor();
  await set(page, pool, { Partition: "gpu", "Shared folder": `${folder}/../shared` });
  await page.getByRole("dialog").getByText("the path must be absolute").first().waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  await set(page, pool, { Partition: "gpu", "Shared folder": folder });
  const pools = page.getByRole("region", { name: "Pools" });
  await pools.getByText("Passed", { exact: true }).waitFor();

  const job = await admin.command(name("held"), ["true"], { pool: { pool, nodes: 1, gpus_per_node: 1 } });
  const held = page.getByRole("region", { name: "Jobs that Slurm holds" });
  const row = held.getByRole("row", { name: name("held") });
  await row.getByText(/^(Resources|Priority)$/).waitFor();
  await settle(page);
  assert.deepEqual(await faults(page.context(), page), []);

  const small = await phone();
  await small.goto(`${task.url}/fleets/${slurmFleet}`);
  await small.getByRole("region", { name: "Jobs that Slurm holds" }).waitFor();
  assert.deepEqual(await faults(small.context(), small), []);

  await page.goto(`${task.url}/cluster?view=queue`);
  await page.getByRole("row", { name: name("held") }).getByText(/Slurm: (Resources|Priority)/).waitFor();
  await page.getByRole("link", { name: name("held") }).click();
  await page.getByRole("heading", { name: "Slurm holds this job" }).waitFor();
  await page.getByRole("columnheader", { name: "Slurm job" }).waitFor();

  await page.goto(`${task.url}/fleets/${slurmFleet}`);
  await set(page, pool, { Partition: "nosuch" });
  await pools.getByText("Failed", { exact: true }).waitFor();
  await pools.getByText("Correct the settings of the pool, or repair the cluster.").waitFor();
  await admin.post(`/api/jobs/${job.id}/stop`);
}
