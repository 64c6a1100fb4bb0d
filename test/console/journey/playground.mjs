// J8: two columns of the playground reply at once. A response can be stopped, and a session that ends warns first and is
// read-only afterwards.
import assert from "node:assert/strict";

const choose = async (page, at, label, option) => {
  await page.getByRole("combobox", { name: label }).nth(at).click();
  await page.getByRole("option", { name: option }).first().click();
};

export default async function ({ task, name, desk }) {
  const page = await desk();
  await page.goto(`${task.url}/playground`);
  await choose(page, 0, "Model", new RegExp(task.ids.name));
  await page.getByRole("button", { name: "Compare with another" }).click();
  await choose(page, 1, "Model", new RegExp(task.ids.name));
  await page.getByLabel("Title").fill(name("talk"));
  await page.getByRole("button", { name: "Start session" }).click();
  await page.waitForURL(/\/playground\/pgs?_|\/playground\/\w+_/);
  const columns = [1, 2].map((number) => page.getByRole("region", { name: `Column ${number}` }));
  for (const column of columns) await column.getByText("Ready", { exact: true }).waitFor();

  await page.getByLabel("Message", { exact: true }).fill("1+2?");
  await page.keyboard.press("Enter");
  for (const column of columns) await column.getByText(/tokens/).first().waitFor();
  const replies = await Promise.all(columns.map((column) => column.getByRole("article").nth(1).innerText()));
  for (const reply of replies) assert.match(reply, /Model\n/);

  // The server's own clock decides; the page only counts down.
  const session = /playground\/(\w+)/.exec(page.url())[1];
  let left = 100;
  await page.route(`**/api/playground/sessions/${session}`, async (route) => {
    const response = await route.fetch();
    const body = await response.json();
    await route.fulfill({ response, json: { ...body, expires_at: new Date(Date.now() + left * 1000).toISOString() } });
  });
  await page.reload();
  await page.getByText("The session ends in").waitFor();
  await page.getByLabel("Message", { exact: true }).waitFor();
  left = 1;
  await page.reload();
  await page.getByText("It can only be read.").waitFor();
  assert.equal(await page.getByLabel("Message", { exact: true }).count(), 0);
  await page.getByText("1+2?").first().waitFor();
  await page.unroute(`**/api/playground/sessions/${session}`);
  left = 1000;
  await page.reload();
  await page.getByRole("button", { name: "End session" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "End session" }).click();
  await page.getByText("The session was ended. It can only be read.").waitFor();
}
