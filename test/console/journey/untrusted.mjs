// Names, hyperparameters, samples, logs and cards of users are text everywhere, whatever they contain.
import assert from "node:assert/strict";
import { settle, wide } from "../browser.mjs";

const markup = `<img src=x onerror=alert(1)><script>alert(2)</script>`;
const bidi = "\u202e";
const ansi = "\u001b[31m";
const hostile = `${markup}${bidi}reversed`;

const training = `
import sys, signalbox
bad = "<img src=x onerror=alert(1)><script>alert(2)</script>\\u202ereversed"
with signalbox.init() as run:
    run.starting()
    run.hparams({"note": bad + "\\x1b[31m", "<b>key</b>": 1})
    run.running()
    run.log({"loss": 1.0}, step=1)
    run.validation(step=1, samples=[{"user": bad, "assistant": "\\x1b[31m" + bad + "x" * 1000000, "reward": 1.0, "extra": {bad: bad}}], avg_reward=1.0, accuracy=1.0)
    print(bad)
    print("\\x1b[31mred\\x1b[0m\\x1b]0;title\\x07" + "y" * 1000000)
`;

// reportRun creates a run without a job whose name, tag, notes and metric have markup, and returns its id.
async function reportRun(admin, name) {
  const { run, report } = await admin.outside(`${name} ${markup}`, { tags: ["<b>tag</b>"] });
  const ts = new Date().toISOString();
  await report("metrics", { points: [{ key: `${markup}/loss`, step: 1, value: 1, ts }] });
  await report("logs", { chunks: [`${hostile}\n`] });
  await report("lifecycle", { event: "failed", ts, message: hostile });
  await admin.request("PATCH", `/api/runs/${run.id}`, { notes: `${hostile}\n\n[a link](javascript:alert(3))` });
  return run.id;
}

export default async function ({ task, admin, name, desk, stranger }) {
  const job = await admin.command(`${name("bad")} ${markup}`, ["python", "-c", training]);
  assert.equal((await admin.job(job.id, "succeeded", "failed", "stopped")).state, "succeeded");
  const models = await admin.get(`/api/models?q=${task.ids.name}`);
  const version = `/api/models/${models[0].id}/versions/${models[0].latest_version}`;
  await admin.request("PUT", `${version}/card`, { content: `# Card\n\n${hostile}\n\n[a link](javascript:alert(3)) <iframe src="//x"></iframe> ${ansi}` });
  const share = await admin.post("/api/shares", { kind: "job", target_ids: [job.run_id], fields: ["metrics", "config", "samples"], title: hostile });

  const check = async (page, path, shows) => {
    await page.goto(task.url + path);
    await page.locator("main h1").first().waitFor();
    await page.locator("main").getByText(shows).first().waitFor();
    await page.waitForFunction(() => document.querySelectorAll("main .skeleton, main [aria-busy=true]").length === 0);
    const found = await page.evaluate(() => ({
      elements: [...document.body.querySelectorAll("main img[src=x], script:not([src]), iframe, a[href^='javascript:']")].map((e) => e.outerHTML.slice(0, 200)),
      text: document.body.innerText,
      title: document.title,
    }));
    assert.deepEqual(found.elements, [], path);
    for (const character of [bidi, "\u001b", "\u0007"]) {
      assert.ok(!found.text.includes(character) && !found.title.includes(character), `${path} shows the character ${character.codePointAt(0).toString(16)}`);
    }
    assert.ok(!found.title.startsWith("title"), path);
    assert.equal(await wide(page), 0, `${path} scrolls sideways`);
  };
  const page = await desk();
  const dialogs = [];
  page.on("dialog", (dialog) => dialogs.push(dialog.dismiss()));
  await check(page, `/jobs?q=${name("bad")}`, markup);
  await check(page, `/jobs/${job.id}`, markup);
  await check(page, `/jobs/${job.id}/logs`, markup);
  await check(page, `/jobs/${job.id}/samples`, markup);
  await check(page, `/jobs/${job.id}/spec`, "signalbox.init()");
  await check(page, `/runs/${job.run_id}`, markup);
  const outside = await reportRun(admin, name("outside"));
  await check(page, `/runs?q=${name("outside")}`, markup);
  await check(page, `/runs/${outside}`, markup);
  await check(page, `/runs/${outside}/metrics`, `${markup}/loss`);
  await check(page, `/runs/${outside}/notes`, "onerror=alert(1)");
  await check(page, `/compare?runs=${job.run_id}&tab=params&equal=true`, markup);
  await check(page, `/models/${models[0].id}/${models[0].latest_version}`, "onerror=alert(1)");
  await check(page, "/settings/shares", markup);
  const reader = await stranger();
  reader.on("dialog", (dialog) => dialogs.push(dialog.dismiss()));
  await check(reader, `/share/${share.token}`, markup);
  await settle(reader);
  assert.equal(dialogs.length, 0, "no script may run");
}
