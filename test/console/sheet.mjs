// sheet.mjs CHROMIUM FOLDER makes one contact sheet of the screenshots in a folder: a page that links each of them, and
// a picture of that page. A row is an address of the console, a column is a look.
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { start } from "./browser.mjs";

const [chromium, folder] = process.argv.slice(2);
const looks = ["light-1280", "dark-1280", "light-390"];
const shots = readdirSync(folder).flatMap((file) => {
  const look = looks.find((name) => file.endsWith(`-${name}.png`));
  return look ? [{ file, look, route: file.slice(0, -`-${look}.png`.length) }] : [];
});
if (shots.length === 0) throw new Error(`${folder} has no screenshots: run make shots`);
const routes = [...new Set(shots.map((shot) => shot.route))].sort();

const cell = (route, look) => {
  const shot = shots.find((s) => s.route === route && s.look === look);
  return `<td>${shot ? `<a href="${shot.file}"><img src="${shot.file}" alt="${route} ${look}"></a>` : ""}</td>`;
};
const rows = routes.map((route) => `<tr><th>${route}</th>${looks.map((look) => cell(route, look)).join("")}</tr>`);
const page = `<!doctype html><meta charset="utf-8"><title>Screenshots of the console</title>
<style>
  body { font: 14px sans-serif; background: #ddd; margin: 8px }
  th { text-align: left; vertical-align: top; padding: 4px }
  td { vertical-align: top }
  img { height: 215px; display: block; border: 1px solid #999 }
</style>
<table><tr><th></th>${looks.map((look) => `<th>${look}</th>`).join("")}</tr>
${rows.join("\n")}
</table>
`;
const file = join(folder, "index.html");
writeFileSync(file, page);

const browser = await start(chromium);
try {
  const tab = await browser.newPage({ viewport: { width: 1800, height: 900 }, deviceScaleFactor: 0.75 });
  await tab.goto(pathToFileURL(file).href);
  await tab.screenshot({ path: join(folder, "sheet.png"), fullPage: true });
} finally {
  await browser.close();
}
console.log(`${shots.length} screenshots of ${routes.length} addresses`);
console.log(file);
console.log(join(folder, "sheet.png"));
