// This program walks journeys of users through the console in Chromium. It prints for each what went wrong as one JSON
// object, which consolejourneys_test.go checks. A journey is a file of the folder journey; it throws if the console does
// not do what it must.
import { mkdirSync } from "node:fs";
import { text } from "node:stream/consumers";
import { profile, repeated, signIn, start } from "./browser.mjs";
import { Server } from "./server.mjs";

const task = JSON.parse(await text(process.stdin));
const browser = await start(task.chromium);
const admin = await new Server(task.url, task.username, task.password).signIn();
const stamp = Date.now().toString(36);
mkdirSync(task.out, { recursive: true });

// The journeys share the sign-ins, because the number of sign-ins from one address is limited.
const shared = new Map();
async function tab(name, look) {
  let opened = shared.get(name);
  if (!opened) {
    opened = await profile(browser, task, look);
    await signIn(opened.page, task);
    shared.set(name, opened);
  }
  for (const list of Object.values(opened.seen)) list.length = 0;
  return { ...opened, page: await opened.context.newPage() };
}

const failedLoad = /^Failed to load resource: the server responded with a status of \d{3} /;

async function walk(name) {
  const began = Date.now();
  const used = [];
  const use = (opened) => {
    used.push(opened);
    return opened.page;
  };
  const { default: journey, statuses = [] } = await import(`./journey/${name}.mjs`);
  const report = { name, faults: [], said: [] };
  try {
    await journey({
      task,
      admin,
      name: (part) => `${part}-${stamp}`,
      desk: async () => use(await tab("desk", {})),
      phone: async () => use(await tab("phone", { width: 390, height: 844 })),
      stranger: async (look, url = task.url) => use(await profile(browser, { ...task, url }, look)),
      signIn: (page) => signIn(page, task),
      say: (what) => report.said.push(what),
    });
  } catch (error) {
    report.failed = String(error?.stack ?? error).slice(0, 2000);
  }
  for (const { page, seen } of used) {
    if (report.failed) await page.screenshot({ path: `${task.out}/journey-${name}-${used.findIndex((u) => u.page === page)}.png` }).catch(() => {});
    report.faults.push(...seen.policy, ...seen.elsewhere);
    report.faults.push(...seen.console.filter((line) => !failedLoad.test(line)));
    for (const status of seen.statuses) {
      const at = repeated.indexOf(status);
      if (at >= 0) repeated.splice(at, 1);
      else if (!statuses.some((allowed) => allowed.test(status))) report.faults.push(status);
    }
    await page.close();
  }
  report.seconds = (Date.now() - began) / 1000;
  return report;
}

try {
  const reports = [];
  for (const name of task.journeys) reports.push(await walk(name));
  console.log(JSON.stringify(reports));
} finally {
  await browser.close();
}
