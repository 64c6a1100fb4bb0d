// This program follows and stops a running job in Chromium as a user does, and then looks at it on a phone. It prints what it saw as one JSON object, which console_test.go checks.
import { text } from "node:stream/consumers";
import { beyond, profile, settle, signIn, start, wide } from "./browser.mjs";

const task = JSON.parse(await text(process.stdin));
const browser = await start(task.chromium);
const saw = {};

// rows returns the numbers and the texts of the lines on the screen.
const rows = (page) =>
  page.evaluate(() => [...document.querySelectorAll("main [data-line]")].map((row) => ({ seq: Number(row.dataset.line), text: row.innerText })));

// The number of a line of the job.
const line = " counts (\\d+)";

try {
  const { page, seen } = await profile(browser, task);
  page.on("dialog", (dialog) => {
    saw.dialog = dialog.message();
    dialog.dismiss();
  });
  await signIn(page, task, "/jobs");
  await page.getByRole("link", { name: task.ids.counter }).first().click();
  await page.getByRole("link", { name: "Logs", exact: true }).click();
  await page.locator("main [data-line]").first().waitFor();
  const before = await beyond(page, line, 5);
  await beyond(page, line, before + 20);
  saw.following = await rows(page);
  await page.getByRole("region", { name: "Log" }).focus();
  await page.keyboard.press("Home");
  await page.locator("main [data-line='1']").waitFor();
  saw.hostile = await page.locator("main [data-line='1']").innerText();
  saw.images = await page.locator("main [data-line] img, main [data-line] script").count();

  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Stop", exact: true }).click();
  await page.getByText("Log complete").waitFor();
  saw.state = await page.locator("main").getByText("Stopped", { exact: true }).first().innerText();
  await page.keyboard.press("End");
  await page.getByText(`${task.ids.counter} ends at`).first().waitFor();
  saw.atEnd = await rows(page);
  saw.policy = seen.policy;

  const phone = await profile(browser, task, { width: 390, height: 844 });
  await signIn(phone.page, task, "/jobs");
  await phone.page.getByRole("link", { name: task.ids.counter }).first().click();
  await phone.page.getByRole("link", { name: "Logs", exact: true }).click();
  await phone.page.getByText(`${task.ids.counter} ends at`).first().waitFor();
  await settle(phone.page);
  saw.wide = await wide(phone.page);
  console.log(JSON.stringify(saw));
} catch (error) {
  const pages = browser.contexts().flatMap((c) => c.pages());
  await pages.at(-1)?.screenshot({ path: `${task.out}/live-failed.png` });
  throw error;
} finally {
  await browser.close();
}
