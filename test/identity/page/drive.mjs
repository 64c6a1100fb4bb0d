// This program uses the gateway's pages in Chromium. It prints the results as one JSON object, which
// page_test.go checks. It reads its task from standard input, so that the arguments contain no password.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { text } from "node:stream/consumers";

const packages = createRequire(process.env.NODE_MODULES + "/");
const { chromium } = packages("playwright-core");
const axe = readFileSync(packages.resolve("axe-core/axe.min.js"), "utf8");

const task = JSON.parse(await text(process.stdin));
const seen = { reports: [], console: [], requests: [], faults: {}, kept: [], wide: [], shown: { cookiesAfterSignOut: [] } };
const patience = 30_000;

const browser = await chromium.launch({ executablePath: task.chromium, args: ["--no-sandbox"], timeout: 60_000 });

// visit opens a new browser profile. It records console messages, requests and policy violations of all
// pages.
const visit = async (scheme, width) => {
  const context = await browser.newContext({ colorScheme: scheme, viewport: { width, height: 860 }, reducedMotion: "reduce" });
  context.setDefaultTimeout(patience);
  await context.exposeBinding("told", (_, what) => { seen.reports.push(what); });
  await context.addInitScript(() => {
    addEventListener("securitypolicyviolation", (e) => globalThis.told(e.effectiveDirective + " " + e.blockedURI + " " + e.sourceFile));
  });
  context.on("console", (m) => { if (m.type() === "error" || m.type() === "warning") seen.console.push(m.text()); });
  context.on("weberror", (e) => { seen.console.push(String(e.error())); });
  context.on("dialog", (d) => { seen.console.push("dialog: " + d.message()); d.dismiss(); });
  context.on("request", (r) => { seen.requests.push(r.method() + " " + r.url()); });
  const page = await context.newPage();
  return { context, page, scheme, width };
};

// look takes a screenshot of the page. It records accessibility violations, and whether the page scrolls horizontally.
const look = async ({ context, page, scheme, width }, name) => {
  await page.screenshot({ path: `${task.out}/${name}-${scheme}-${width}.png`, fullPage: true });
  const protocol = await context.newCDPSession(page);
  await protocol.send("Runtime.evaluate", { expression: axe, allowUnsafeEvalBlockedByCSP: true });
  const { result } = await protocol.send("Runtime.evaluate", {
    expression: "axe.run().then((r) => JSON.stringify(r.violations.map((v) => v.id + ': ' + v.nodes.map((n) => n.html).join(' | '))))",
    awaitPromise: true, returnByValue: true,
  });
  const faults = JSON.parse(result.value);
  if (faults.length > 0) seen.faults[`${name}-${scheme}-${width}`] = faults;
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  if (wide > 0) seen.wide.push(`${name}-${scheme}-${width}: ${wide}px`);
  await protocol.detach();
};

// kept appends to seen.kept all data that a page could leave behind.
const kept = async ({ context, page }) => {
  const stored = await page.evaluate(async () => ({
    local: { ...localStorage }, session: { ...sessionStorage }, cookie: document.cookie,
    databases: (await indexedDB.databases()).length, caches: globalThis.caches ? await caches.keys() : [],
    workers: navigator.serviceWorker ? (await navigator.serviceWorker.getRegistrations()).length : 0,
    name: globalThis.name, state: history.state, html: document.documentElement.outerHTML,
  }));
  const cookies = (await context.cookies()).map((c) => ({ name: c.name, httpOnly: c.httpOnly, sameSite: c.sameSite, path: c.path }));
  seen.kept.push({ ...stored, cookies });
};

const at = (page) => new URL(page.url()).pathname + new URL(page.url()).search;

const signIn = async (page, password, username = task.username) => {
  await page.getByLabel("Username").fill(username);
  await page.getByLabel("Password", { exact: true }).fill(password);
  await page.keyboard.press("Enter");
};

// login submits the sign-in form first empty, then with a wrong and then with the correct password. The query parameter
// next contains another host.
const login = async (v) => {
  const { page } = v;
  await page.goto(task.url + "/login?next=//evil.example/", { waitUntil: "networkidle" });
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await look(v, "login");
  await page.getByRole("button", { name: "Sign in" }).click();
  seen.shown.empty = await page.getByRole("alert").innerText();
  await signIn(page, "wrong " + task.password);
  await page.getByText("Wrong username").waitFor();
  seen.shown.wrong = await page.getByRole("alert").innerText();
  seen.shown.wrongFocus = await page.evaluate(() => document.activeElement.id);
  await look(v, "login-wrong");
  await signIn(page, task.password);
  await page.getByRole("heading", { name: "You are signed in" }).waitFor();
  seen.shown.afterLogin = at(page);
  await look(v, "signed-in");
  await kept(v);
};

// redirects opens the sign-in page while signed in, with values of the query parameter next that lead to
// other hosts.
const redirects = async ({ page }) => {
  seen.shown.elsewhere = [];
  for (const next of task.elsewhere) {
    await page.goto(task.url + "/login?next=" + encodeURIComponent(next));
    await page.getByRole("heading", { name: "You are signed in" }).waitFor();
    if (new URL(page.url()).host !== new URL(task.url).host) seen.shown.elsewhere.push(page.url());
  }
  await page.goto(task.url + "/login?next=" + encodeURIComponent("/device"));
  await page.getByLabel("Code").waitFor();
  seen.shown.followed = at(page);
};

// tab presses Tab until the element has the focus. It throws an error if the keyboard cannot reach the
// element.
const tab = async (page, id) => {
  for (let n = 0; n < 20; n++) {
    if (await page.evaluate(() => document.activeElement.id) === id) return;
    await page.keyboard.press("Tab");
  }
  throw new Error("the element " + id + " cannot be reached with the keyboard");
};

// approve approves a device whose code is in the URL. It uses only the keyboard.
const approve = async (v) => {
  const { page } = v;
  await page.goto(task.url + "/device?user_code=" + task.approve);
  await page.getByRole("heading", { name: "Allow this device to sign in?" }).waitFor();
  seen.shown.request = await page.locator("#decide").innerText();
  seen.shown.spoken = await page.locator("#spoken-code").textContent();
  seen.shown.decideFocus = await page.evaluate(() => document.activeElement.id);
  await look(v, "device");
  await tab(page, "approve");
  await look(v, "device-focus");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Device connected" }).waitFor();
  seen.shown.approved = await page.locator("#done").innerText();
  await look(v, "device-approved");
  await kept(v);
  await page.goto(task.url + "/device?user_code=" + task.approve);
  await page.getByRole("alert").filter({ visible: true }).waitFor();
  seen.shown.again = await page.getByRole("alert").filter({ visible: true }).innerText();
  await look(v, "device-again");
};

// deny opens the device page without a session. The page redirects to the sign-in page and back, and does not show the
// form for the code again. deny then denies the request.
const deny = async (v) => {
  const { page } = v;
  await page.goto(task.url + "/device?user_code=" + task.deny.toLowerCase().replace("-", ""));
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  seen.shown.ledTo = at(page);
  await look(v, "login");
  await signIn(page, task.password);
  await page.getByRole("heading", { name: "Allow this device to sign in?" }).waitFor();
  seen.shown.ledBack = at(page);
  await look(v, "device");
  await page.getByRole("button", { name: "Deny" }).click();
  await page.getByRole("heading", { name: "Request denied" }).waitFor();
  await look(v, "device-denied");
  await kept(v);
};

// typed types two codes. The first code does not exist. The second code opens a request, which typed neither approves
// nor denies.
const typed = async (v) => {
  const { page } = v;
  await page.goto(task.url + "/device");
  await page.getByLabel("Code").fill("bbbb bbbb");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").filter({ visible: true }).waitFor();
  seen.shown.unknown = await page.getByRole("alert").filter({ visible: true }).innerText();
  await look(v, "device-unknown");
  await page.getByLabel("Code").fill(task.look.toLowerCase().replace("-", ""));
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Allow this device to sign in?" }).waitFor();
  await page.reload();
};

// change signs in with a temporary password and must choose another password before it can continue.
const change = async (v) => {
  const { page } = v;
  await page.goto(task.url + "/device");
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await signIn(page, task.drawn, task.newcomer);
  await page.getByRole("heading", { name: "Choose your own password" }).waitFor();
  await page.getByLabel("New password", { exact: true }).fill("short");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").filter({ visible: true }).waitFor();
  seen.shown.tooShort = await page.getByRole("alert").filter({ visible: true }).innerText();
  await look(v, "change");
  await page.getByLabel("New password", { exact: true }).fill(task.fresh);
  await page.getByLabel("New password again").fill(task.fresh);
  await page.keyboard.press("Enter");
  await page.getByLabel("Code").waitFor();
  seen.shown.changed = at(page);
  await kept(v);
};

// linked opens a sign-in link, which leads to the requested page, and opens it again in a browser that is not signed in.
const linked = async (v, again) => {
  const address = task.url + "/login?next=%2Fdevice#link=" + task.link;
  await v.page.goto(address);
  await v.page.getByLabel("Code").waitFor();
  seen.shown.linked = v.page.url();
  await kept(v);
  await again.page.goto(address);
  await again.page.getByRole("alert").filter({ visible: true }).waitFor();
  seen.shown.linkAgain = await again.page.getByRole("alert").filter({ visible: true }).innerText();
  seen.shown.linkGone = again.page.url();
  await look(again, "login-link-used");
};

// leave signs out, and then opens a callback that fails. If late is set, it signs out with an invalid access token, as
// on a page that was open for a day.
const leave = async (v, late) => {
  const { page, context } = v;
  await page.goto(task.url + "/login");
  await page.getByRole("button", { name: "Sign out" }).waitFor();
  if (late) {
    await page.route("**/api/auth/logout", (route) => route.continue({ headers: { ...route.request().headers(), authorization: "Bearer a.b.c" } }), { times: 1 });
  }
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  seen.shown.cookiesAfterSignOut.push(...(await context.cookies()).map((c) => c.name));
  await page.goto(task.url + "/auth/callback?code=a&state=b");
  await look(v, "failed");
  seen.shown.failed = await page.locator("main").innerText();
};

try {
  const light = await visit("light", 1100);
  await login(light);
  await redirects(light);
  await approve(light);
  await typed(light);
  await leave(light);
  const dark = await visit("dark", 390);
  await deny(dark);
  await leave(dark, true);
  const other = await visit("light", 390);
  await change(other);
  await linked(await visit("dark", 1100), await visit("light", 1100));
  console.log(JSON.stringify(seen));
} finally {
  await browser.close();
}
