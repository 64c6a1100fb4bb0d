// J12: on a phone, a user finds the job that failed, reads its last line, and stops another one.
import assert from "node:assert/strict";
import { settle, wide } from "../browser.mjs";

export default async function ({ task, admin, name, phone }) {
  const failing = await admin.command(name("failing"), ["sh", "-c", "echo the last words; exit 3"]);
  const running = await admin.command(name("running"), ["sleep", "600"]);
  await admin.job(failing.id, "failed");
  await admin.job(running.id, "running");
  const page = await phone();
  const fits = async () => assert.equal(await wide(page), 0, `${page.url()} scrolls sideways`);

  await page.goto(`${task.url}/`);
  await settle(page);
  await fits();
  await page.getByRole("link", { name: name("failing") }).first().click();
  await page.getByText("the program failed").first().waitFor();
  await settle(page);
  await fits();
  await page.getByRole("link", { name: "Logs", exact: true }).click();
  await page.getByText("the last words").waitFor();
  await fits();

  await page.goto(`${task.url}/jobs/${task.ids.job}/samples`);
  await settle(page);
  const heading = page.getByRole("article", { name: "Sample", exact: true }).getByRole("heading").first();
  await heading.scrollIntoViewIfNeeded();
  const covered = await heading.evaluate((element) => {
    const { left, top, height } = element.getBoundingClientRect();
    return !element.contains(document.elementFromPoint(left + 4, top + height / 2));
  });
  assert.equal(covered, false, "the list must not cover the heading of the sample");
  await fits();

  await page.goto(`${task.url}/jobs?state=running`);
  await page.getByRole("link", { name: name("running") }).first().click();
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Stop", exact: true }).click();
  await page.locator("main").getByText("Stopped", { exact: true }).first().waitFor();
  await fits();
}
