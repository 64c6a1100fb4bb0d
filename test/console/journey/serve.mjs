// J7: an artifact becomes a model, the model a deployment, and its token is shown once. The copied command runs. Another
// revision is promoted and rolled back while calls continue at the same address.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { promisify } from "node:util";

// Load calls a deployment again and again until it is stopped, and keeps the first refusal.
class Load {
  calls = 0;
  refused = null;
  #on = true;

  constructor(url, token) {
    this.done = Promise.all([this.#lane(url, token), this.#lane(url, token)]);
  }

  async #lane(url, token) {
    while (this.#on) {
      const response = await fetch(url, {
        method: "POST",
        headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
        body: JSON.stringify({ model: "default", stream: true, max_tokens: 4, messages: [{ role: "user", content: "1+2?" }] }),
      });
      const body = await response.text();
      if (!response.ok || !body.includes("[DONE]")) this.refused ??= `${response.status} ${body}`;
      this.calls++;
    }
  }

  async more(n) {
    const want = this.calls + n;
    while (this.calls < want) await new Promise((resolve) => setTimeout(resolve, 20));
  }

  async stop() {
    this.#on = false;
    await this.done;
  }
}

async function register(page, task, name) {
  await page.goto(`${task.url}/jobs/${task.ids.job}/artifacts`);
  await page.getByRole("row").filter({ hasText: "gguf" }).first().getByRole("button", { name: /^Actions for/ }).click();
  await page.getByRole("menuitem", { name: "Register as a model" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name of the model").fill(name);
  await dialog.getByRole("button", { name: "Register" }).click();
  await page.getByText(/is registered/).first().waitFor();
}

// closeChat sends a message in the chat box of a deployment and closes the tab, which ends the token of the box.
async function closeChat(page, task, admin, id) {
  const tokens = `/api/model-deployments/${id}/tokens`;
  const own = (list) => list.filter((token) => token.name === "console chat");
  await page.goto(`${task.url}/deployments/${id}`);
  await page.getByRole("textbox", { name: "Message to the model", exact: true }).fill("1+2?");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.getByText(/A token was created for this box/).waitFor();
  assert.deepEqual(own(await admin.get(tokens)).map((token) => token.revoked_at), [null]);
  await page.close();
  await admin.until(tokens, (list) => own(list).every((token) => token.revoked_at !== null));
}

export default async function ({ task, admin, name, desk }) {
  const page = await desk();
  await register(page, task, name("served"));
  await page.goto(`${task.url}/models?q=${name("served")}`);
  await page.getByRole("link", { name: name("served") }).first().click();
  await page.getByRole("button", { name: "Deploy", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Deploy", exact: true }).click();
  await page.waitForURL(/\/deployments\/dep_/);
  const id = /dep_\w+/.exec(page.url())[0];
  const list = page.getByRole("tabpanel").getByRole("listitem");
  const promote = async (number) => {
    const row = list.filter({ hasText: `#${number}` });
    await row.getByText("Ready", { exact: true }).waitFor();
    await row.getByRole("button", { name: "Promote" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("The URL does not change").waitFor();
    await dialog.getByRole("button", { name: "Promote" }).click();
    await row.getByText("Serves calls").waitFor();
  };
  await promote(1);

  await page.getByRole("tab", { name: "Tokens" }).click();
  await page.getByRole("button", { name: "New token" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("load");
  await dialog.getByRole("button", { name: "Create" }).click();
  const token = (await dialog.getByLabel("Token", { exact: true }).innerText()).trim();
  assert.match(token, /^dtk_/);
  const done = dialog.getByRole("button", { name: "Done" });
  assert.ok(await done.isDisabled(), "the dialog stays until the token is stored");
  await page.keyboard.press("Escape");
  await dialog.getByRole("alert").waitFor();
  await dialog.getByLabel("I stored it").click();
  await done.click();

  await page.getByRole("tab", { name: "Overview" }).click();
  const command = await page.getByLabel("Example in curl").innerText();
  assert.ok(command.includes(token), "the example has the new token while the page is open");
  const { stdout } = await promisify(execFile)("bash", ["-c", command]);
  assert.match(stdout, /data: \[DONE\]/);
  const url = /https?:\S+/.exec(command)[0];

  await page.getByRole("tab", { name: "Revisions" }).click();
  await page.getByRole("button", { name: "New revision" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Create" }).click();
  await list.filter({ hasText: "#2" }).getByText("Ready", { exact: true }).waitFor();
  const load = new Load(url, token);
  try {
    await load.more(4);
    await promote(2);
    await load.more(4);
    await page.getByRole("button", { name: "Roll back to 1" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Roll back" }).click();
    await list.filter({ hasText: "#1" }).getByText("Serves calls").waitFor();
    await load.more(4);
  } finally {
    await load.stop();
  }
  assert.equal(load.refused, null, "no call fails while revisions change");
  const served = await admin.until(`/api/model-deployments/${id}/traffic?limit=200`, (calls) => calls.length > load.calls);
  assert.deepEqual([...new Set(served.map((call) => call.revision_number))].sort(), [1, 2]);

  await page.getByRole("tab", { name: "Tokens" }).click();
  assert.equal(await page.getByText(token).count(), 0, "the token is never shown again");
  await page.getByRole("button", { name: "Revoke load" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await page.getByText("Revoked", { exact: true }).waitFor();
  assert.equal((await admin.send("POST", new URL(url).pathname, {}, token)).status, 401);
  await closeChat(await desk(), task, admin, id);
  await admin.post(`/api/model-deployments/${id}/suspend`, { mode: "cut" });
}
