// J1: a new user changes the temporary password and follows the first steps, which tick themselves. The commands that they show are run as they are.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { dirname } from "node:path";
import { promisify } from "node:util";
import { enter, settle } from "../browser.mjs";
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
  await enter(page, "/api/auth/login");
  const password = "a long password of mine 7";
  await page.locator("#fresh").fill(password);
  await page.locator("#repeat").fill(password);
  await enter(page, "/api/profile/password");
  await page.getByRole("link", { name: "Open the console" }).click();
  await page.waitForURL((url) => url.pathname === "/");
  await settle(page);

  const steps = page.getByRole("region", { name: "First steps" });
  const ticks = steps.getByLabel("Done");
  await steps.waitFor();
  assert.equal(await ticks.count(), 0);
  const shown = steps.getByLabel("Command");
  assert.equal(await shown.innerText(), `signalbox login --server ${task.url}`);
  await steps.getByRole("button", { name: "Copy" }).click();
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^signalbox login/);

  // A token takes the place of the login, which needs an approval. The other commands run as they are shown.
  const user = await new Server(task.url, username, password).signIn();
  await ticks.nth(0).waitFor();
  const terminal = async () => {
    const PATH = `${dirname(task.ids.signalbox)}:${process.env.PATH}`;
    const env = { ...process.env, PATH, SERVICE_SERVER: task.url, SERVICE_TOKEN: user.token };
    return promisify(execFile)("bash", ["-c", await shown.innerText()], { env });
  };
  const { stdout } = await terminal();
  assert.match(stdout, /hello/);
  await ticks.nth(1).waitFor();
  await page.getByRole("link", { name: "hello", exact: true }).first().waitFor();
  await terminal();
  await steps.waitFor({ state: "detached" });
}
