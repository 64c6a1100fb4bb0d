// J1: a new user changes the temporary password and follows the first steps, which tick themselves.
import assert from "node:assert/strict";
import { settle } from "../browser.mjs";
import { Server } from "../server.mjs";

// The sign-in page looks for a session, and a temporary password opens nothing else.
export const statuses = [/^401 POST \/api\/auth\/refresh$/, /^403 GET \/api\/profile$/];

export default async function ({ task, admin, name, stranger }) {
  const username = name("new");
  const made = await admin.post("/api/admin/users", { username, role: "operator", email: `${username}@example.com` });
  const page = await stranger();
  await page.goto(`${task.url}/login`);
  await page.locator("#username").fill(username);
  await page.locator("#password").fill(made.password ?? made.temporary_password);
  await page.keyboard.press("Enter");
  const password = "a long password of mine 7";
  await page.locator("#fresh").fill(password);
  await page.locator("#repeat").fill(password);
  await page.keyboard.press("Enter");
  await page.getByRole("link", { name: "Open the console" }).click();
  await page.waitForURL((url) => url.pathname === "/");
  await settle(page);

  const steps = page.getByRole("region", { name: "First steps" });
  const ticks = steps.getByLabel("Done");
  await steps.waitFor();
  assert.equal(await ticks.count(), 0);
  assert.match(await steps.getByLabel("Command").innerText(), new RegExp(`username: "${username}"`));
  await steps.getByRole("button", { name: "Copy" }).click();
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /api\/auth\/login/);

  const user = await new Server(task.url, username, password).signIn();
  await ticks.nth(0).waitFor();
  await user.command(name("hello"), ["echo", "hello"], { project: "default" });
  await ticks.nth(1).waitFor();
  await page.getByRole("link", { name: name("hello") }).first().waitFor();
  await user.post("/api/model-deployments", { name: name("first"), project: "default" });
  await steps.waitFor({ state: "detached" });
}
