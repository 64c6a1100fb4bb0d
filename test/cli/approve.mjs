// This program signs in to the console in Chromium and approves the sign-in of a device, as a person does who opens the
// address that signalbox login prints. It reads its task from standard input, so that the arguments contain no password,
// and prints what the page showed as JSON.
import { createRequire } from "node:module";
import { text } from "node:stream/consumers";

const { chromium } = createRequire(process.env.NODE_MODULES + "/")("playwright-core");
const task = JSON.parse(await text(process.stdin));
const browser = await chromium.launch({ executablePath: task.chromium, args: ["--no-sandbox"], timeout: 60_000 });
const context = await browser.newContext();
context.setDefaultTimeout(60_000);
const page = await context.newPage();
await page.goto(task.address);
await page.getByLabel("Username").fill(task.username);
await page.getByLabel("Password", { exact: true }).fill(task.password);
await page.keyboard.press("Enter");
await page.getByRole("heading", { name: "Allow this device to sign in?" }).waitFor();
const request = await page.locator("#decide").innerText();
await page.getByRole("button", { name: task.button }).click();
await page.getByRole("heading", { name: task.heading }).waitFor();
await browser.close();
process.stdout.write(JSON.stringify({ request }));
