// This program reports a long run through the public API and measures in Chromium how long its pages take. It prints the
// figures as one JSON object, which consolemeasure_test.go prints beside what they should be.
import assert from "node:assert/strict";
import { text } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
import { profile, settle, signIn, start } from "./browser.mjs";
import { Server } from "./server.mjs";

const task = JSON.parse(await text(process.stdin));
const { points, keys, lines, rounds } = task.size;
const admin = await new Server(task.url, task.username, task.password).signIn();
const searched = "layer7/needle";

// The limits of one report.
const mostPoints = 10_000;
const linesPerReport = 10_000;

async function reportRun() {
  const { run, report } = await admin.outside("a long run");
  const ts = new Date().toISOString();
  const all = [];
  for (let at = 0; at < keys - 2; at++) for (let step = 0; step < 10; step++) all.push({ key: `layer${at % 30}/weight${at}`, step, value: Math.sin(at + step), ts });
  for (let step = 0; step < 10; step++) all.push({ key: searched, step, value: step, ts });
  for (let from = 0; from < all.length; from += mostPoints) await report("metrics", { points: all.slice(from, from + mostPoints) });
  for (let from = 0; from < points; from += mostPoints) {
    const part = Array.from({ length: Math.min(mostPoints, points - from) }, (_, at) => ({ key: "train/loss", step: from + at, value: 1 / (1 + from + at), ts }));
    await report("metrics", { points: part });
  }
  for (let from = 0; from < lines; from += linesPerReport) {
    const part = Array.from({ length: Math.min(linesPerReport, lines - from) }, (_, at) => `step ${from + at + 1} of ${lines}: loss 0.123456 rate 0.0003 tokens per second 12345\n`);
    await report("logs", { chunks: [part.join("")] });
  }
  await report("lifecycle", { event: "succeeded", ts });
  return run.id;
}

const painted = (page) => page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

// timed prepares and runs something again and again, and returns the median time of the runs.
async function timed(prepare, run) {
  const took = [];
  for (let round = 0; round < rounds; round++) {
    await prepare();
    const began = performance.now();
    await run();
    took.push(performance.now() - began);
  }
  return median(took);
}

const began = performance.now();
const id = await reportRun();
const figures = { report_s: (performance.now() - began) / 1000 };
const browser = await start(task.chromium);
try {
  const { page, seen } = await profile(browser, task);
  // The initial JavaScript is what is loaded until the list of jobs can be used.
  const scripts = new Map();
  page.on("response", async (response) => {
    if (response.request().resourceType() === "script") scripts.set(response.url(), gzipSync(await response.body().catch(() => "")).length);
  });
  await signIn(page, task, "/jobs");
  await page.getByRole("grid").or(page.getByText("No jobs yet")).first().waitFor();
  figures.initial_kb = [...scripts.values()].reduce((sum, size) => sum + size, 0) / 1024;
  seen.console.length = 0;

  const overview = () => page.goto(`${task.url}/runs/${id}/notes`).then(() => page.getByRole("link", { name: "Metrics", exact: true }).waitFor());
  // A search by role would look at all cards again and again, and measure itself.
  const chart = page.locator("main article[aria-label='train/loss']");
  figures.chart_ms = await timed(overview, async () => {
    await page.getByRole("link", { name: "Metrics", exact: true }).click();
    await page.getByRole("textbox", { name: "Filter metrics" }).fill("train/");
    await chart.locator("canvas").waitFor();
    await page.waitForFunction(() => {
      const canvas = document.querySelector("main article[aria-label='train/loss'] canvas");
      const { width, height } = canvas;
      return canvas.getContext("2d").getImageData(0, 0, width, height).data.some((byte) => byte !== 0);
    });
  });
  assert.match(await chart.locator("footer").innerText(), points > 2000 ? /of [\d,]+ points/ : /points/);

  const box = page.getByRole("textbox", { name: "Filter metrics" });
  await page.goto(`${task.url}/runs/${id}/metrics`);
  await page.locator("main canvas").first().waitFor();
  await settle(page); // the first charts are drawn before all metrics are read
  figures.cards = await page.locator("main article").count();
  // From the last letter to the frame that shows only what matches, in the page, so that the driver's own time does not count.
  figures.search_ms = await timed(
    async () => {
      await box.fill("");
      await page.waitForFunction((n) => document.querySelectorAll("main article").length >= n, figures.cards);
      await box.pressSequentially(searched.slice(0, -1));
      await painted(page);
      await box.evaluate((input) => {
        globalThis.took = new Promise((resolve) => {
          input.addEventListener("input", () => {
            const at = performance.now();
            const look = () => {
              const shown = [...document.querySelectorAll("main article")].map((a) => a.getAttribute("aria-label"));
              if (shown.length === 1) requestAnimationFrame(() => resolve(performance.now() - at));
              else requestAnimationFrame(look);
            };
            look();
          }, { once: true });
        });
      });
    },
    async () => {
      await box.press(searched.at(-1));
      await page.evaluate(() => globalThis.took).then((ms) => (figures.last_search = ms));
    },
  );
  // The driver's own time is part of the median above; the last one is the page's.
  figures.search_page_ms = figures.last_search;
  delete figures.last_search;

  await page.goto(`${task.url}/runs/${id}/metrics`);
  await page.locator("main canvas").first().waitFor();
  figures.canvases = 0;
  for (let at = 0; at < 20; at++) {
    await page.mouse.wheel(0, 700);
    await painted(page);
    figures.canvases = Math.max(figures.canvases, await page.locator("main canvas").count());
  }

  await page.goto(`${task.url}/runs/${id}/logs`);
  await page.locator("main [data-line]").first().waitFor();
  const log = page.getByRole("region", { name: "Log" });
  figures.log_end_ms = await timed(
    async () => {
      await log.focus();
      await page.keyboard.press("Home");
      await page.locator("main [data-line='1']").waitFor();
    },
    async () => {
      await page.keyboard.press("End");
      await page.getByText(`step ${lines} of ${lines}:`).waitFor();
    },
  );
  figures.heap_mb = await page.evaluate(() => performance.memory.usedJSHeapSize / 2 ** 20);
  assert.deepEqual(seen.policy, []);
  console.log(JSON.stringify(figures));
} catch (error) {
  for (const [at, page] of browser.contexts().flatMap((c) => c.pages()).entries()) await page.screenshot({ path: `${task.out}/measure-failed-${at}.png` }).catch(() => {});
  throw error;
} finally {
  await browser.close();
}
