// A new user opens the link that the demo prints, and learns by clicks alone at which step the model began to get sums
// right, which line the log shows for it, and that the model now adds. The token of the chat box ends with the page.
import assert from "node:assert/strict";
import { settle } from "../browser.mjs";
import { Server } from "../server.mjs";

// The sign-in page looks for a session.
export const statuses = [/^401 POST \/api\/auth\/refresh$/];

const key = "val/exact_match";
const right = 0.5;

// drawn waits until the page shows what the pointer has caused.
const drawn = (page) => page.evaluate(() => new Promise((shown) => requestAnimationFrame(() => requestAnimationFrame(shown))));

// firstAbove moves the pointer over a chart from the left to the right. It returns where the chart first shows a value
// above the bar, and the step there.
async function firstAbove(page, card, bar) {
  const box = await card.locator(".u-over").boundingBox();
  const y = box.y + box.height / 2;
  for (let x = box.x + 1; x < box.x + box.width; x += 3) {
    await page.mouse.move(x, y);
    await drawn(page);
    const text = await card.locator("header").innerText();
    const [, value, step] = /([-\d.,e]+) · step ([\d,]+)/.exec(text) ?? [];
    if (value && Number(value) > bar) return { x, y, step: Number(step.replaceAll(",", "")) };
  }
  throw new Error(`no value of the chart is above ${bar}`);
}

export default async function ({ task, stranger, say }) {
  const { origin } = new URL(task.ids.demo);
  const admin = await new Server(origin, "admin", task.ids.demoPassword).signIn();
  const page = await stranger({}, origin);
  let clicks = 0;
  const click = async (target) => {
    clicks++;
    await target.click();
  };
  await page.goto(task.ids.demo);
  await page.waitForURL((url) => url.pathname.startsWith("/jobs/job_"));
  await settle(page);
  const job = /job_\w+/.exec(page.url())[0];
  const { run_id: run } = await admin.get(`/api/jobs/${job}`);

  const card = page.getByRole("article", { name: key, exact: true });
  await card.locator("canvas").waitFor();
  await card.scrollIntoViewIfNeeded();
  const found = await firstAbove(page, card, right);
  const [series] = await admin.get(`/api/runs/${run}/series?keys=${key}&points=2000`);
  const first = series.points.find((point) => point.value > right);
  assert.equal(found.step, first.step, "the curve shows another step than the series has");
  clicks++;
  await page.mouse.click(found.x, found.y);
  await click(card.getByRole("button", { name: /^Log at step/ }));
  await page.waitForURL((url) => /\/logs$/.test(url.pathname) && /^#L\d+$/.test(url.hash));
  const line = page.locator("main [data-line][aria-current=true]");
  await line.waitFor();
  const said = await line.innerText();
  assert.match(said, new RegExp(`step ${first.step}: exact match ${first.value.toFixed(3)}`), "the log of that step");
  say(`${clicks} clicks to the step ${found.step} and its line: ${said.replace(/\s+/g, " ")}`);

  await click(page.getByRole("link", { name: "Overview", exact: true }).last());
  const message = page.getByRole("textbox", { name: "Message to the model", exact: true });
  await message.fill("27+46?");
  await click(page.getByRole("button", { name: "Send", exact: true }));
  const reply = page.getByRole("list", { name: "Conversation" }).getByRole("listitem").nth(1).locator("p");
  await reply.filter({ hasText: /\d/ }).waitFor();
  await page.getByRole("button", { name: "Send", exact: true }).waitFor();
  const sum = await reply.innerText();
  assert.match(sum, /^\d+$/, "the model replies with a number");
  say(`27+46? ${sum}`);
  await page.getByText("dtk_").first().waitFor();

  const [deployment] = await admin.get("/api/model-deployments?limit=1");
  const tokens = `/api/model-deployments/${deployment.id}/tokens`;
  const own = (list) => list.filter((token) => token.name === "console chat");
  assert.deepEqual(
    own(await admin.get(tokens)).map((token) => token.revoked_at),
    [null],
  );
  await click(page.getByRole("link", { name: "Jobs", exact: true }).first());
  await admin.until(tokens, (list) => own(list).every((token) => token.revoked_at !== null));
  assert.equal(own(await admin.get(tokens)).length, 1);
  say(`${clicks} clicks in all`);
}
