// This program opens each route of the console in Chromium, in each look that its task names. It prints
// what it saw as one JSON object, which console_test.go checks. It reads its task from standard input, so that the
// arguments contain no password.
import { mkdirSync } from "node:fs";
import { text } from "node:stream/consumers";
import { cutTables, faults, hiddenTabs, keysOf, profile, rawKeys, settle, signIn, start, wide } from "./browser.mjs";

const task = JSON.parse(await text(process.stdin));
const keys = keysOf(task.texts);
const browser = await start(task.chromium);
const visits = [];
mkdirSync(task.out, { recursive: true });

// open visits one route and returns what is wrong with it.
async function open({ context, page, seen }, look, route) {
  for (const list of Object.values(seen)) list.length = 0;
  const visit = { route: route.name, ...look };
  try {
    await page.goto(task.url + route.path);
    await settle(page);
    if (route.ready) await page.locator(route.ready).first().waitFor();
    visit.heading = (await page.locator("main h1:visible").first().innerText()).trim();
  } catch (error) {
    visit.failed = String(error).slice(0, 500);
  }
  await page.screenshot({ path: `${task.out}/${route.name}-${look.scheme}-${look.width}.png` });
  visit.faults = await faults(context, page);
  visit.raw = await rawKeys(page, keys);
  visit.wide = await wide(page);
  // On a phone, tables scroll.
  visit.cut = look.width < 1280 ? [] : await cutTables(page);
  visit.hidden = await hiddenTabs(page);
  return { ...visit, ...structuredClone(seen) };
}

try {
  for (const look of task.looks) {
    const routes = task.routes.filter((route) => !route.looks || route.looks.includes(look.name));
    for (const stranger of [false, true]) {
      const some = routes.filter((route) => (route.stranger ?? false) === stranger);
      if (some.length === 0) continue;
      const tab = await profile(browser, task, look);
      if (!stranger) await signIn(tab.page, task);
      for (const route of some) visits.push(await open(tab, look, route));
      await tab.context.close();
    }
  }
  console.log(JSON.stringify(visits));
} finally {
  await browser.close();
}
