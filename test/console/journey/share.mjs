// J10: a link shows a run to a browser without an account. No request of that page has a credential, nothing of the
// owner is in it, and a revoked link opens the same page as an unknown one.
import assert from "node:assert/strict";

export const statuses = [/^404 GET \/api\/share\/\w+$/];

export default async function ({ task, desk, stranger, name }) {
  const page = await desk();
  await page.goto(`${task.url}/jobs/${task.ids.job}`);
  await page.getByRole("button", { name: "Share", exact: true }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Samples of validations").click();
  await dialog.getByLabel("Title").fill(name("shared"));
  await dialog.getByRole("button", { name: "Create link" }).click();
  const link = (await dialog.getByLabel("Link", { exact: true }).innerText()).trim();

  const reader = await stranger();
  const requests = [];
  const bodies = [];
  reader.on("request", (request) => requests.push(request.allHeaders()));
  reader.on("response", (response) => {
    if (new URL(response.url()).pathname.startsWith("/api/")) bodies.push(response.text().catch(() => ""));
  });
  await reader.goto(link);
  await reader.getByRole("heading", { name: name("shared") }).waitFor();
  await reader.locator("main canvas, main svg").first().waitFor();
  for (const headers of await Promise.all(requests)) {
    assert.equal(headers.authorization, undefined);
    assert.equal(headers.cookie, undefined);
    assert.equal(headers.referer?.includes("/share/"), headers.referer === undefined ? undefined : false, "the address does not leak");
  }
  const shown = (await Promise.all(bodies)).join("\n") + (await reader.content());
  for (const secret of [task.username === "admin" ? "admin@" : task.username, '"owner"', '"node"', '"spec"', '"env"']) {
    assert.ok(!shown.includes(secret), `the page of a link must not contain ${secret}`);
  }
  assert.equal(await reader.locator("meta[name=robots]").first().getAttribute("content"), "noindex");
  assert.equal((await reader.context().cookies()).length, 0);

  await page.goto(`${task.url}/settings/shares`);
  await page.getByRole("row").filter({ hasText: name("shared") }).getByRole("button", { name: "Revoke" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await page.getByRole("row").filter({ hasText: name("shared") }).getByText("Revoked").waitFor();
  await reader.reload();
  await reader.getByText("This link does not open anything").first().waitFor();
  const revoked = await reader.locator("main").innerText();
  await reader.goto(`${task.url}/share/shr_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA`);
  await reader.getByText("This link does not open anything").first().waitFor();
  assert.equal(await reader.locator("main").innerText(), revoked);
}
