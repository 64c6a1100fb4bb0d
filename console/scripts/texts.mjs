// Checks the texts of the console: each key that the sources name exists.
import { readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";

const src = new URL("../src", import.meta.url).pathname;
const problems = [];
const files = readdirSync(src, { recursive: true }).map(String);
const plural = /_(zero|one|two|few|many|other)$/;

const flat = (texts, prefix = "") =>
  Object.entries(texts).flatMap(([key, value]) =>
    typeof value === "string" ? [[prefix + key, value]] : flat(value, `${prefix}${key}.`),
  );
const read = (path) => new Map(flat(JSON.parse(readFileSync(join(src, path), "utf8"))));
// base returns the keys without the endings of plural forms.
const base = (texts) => new Set([...texts.keys()].map((key) => key.replace(plural, "")));

const texts = {};
for (const path of files.filter((f) => /(^|[./])en\.json$/.test(f.replaceAll("\\", "/")))) {
  const namespace =
    dirname(path) === "i18n"
      ? basename(path) === "en.json"
        ? "app"
        : basename(path).split(".")[0]
      : basename(dirname(path));
  texts[namespace] = base(read(path));
}

for (const path of files.filter((f) => /\.tsx?$/.test(f) && !f.includes(".test."))) {
  const code = readFileSync(join(src, path), "utf8");
  const namespace = code.match(/useTranslation\(\s*\[?"(\w+)"/)?.[1] ?? "app";
  for (const [call, key] of code.matchAll(/\bt\(\s*"([^"]+)"(?:[^()]*?ns:\s*"(\w+)")?/g)) {
    const own = call.match(/ns:\s*"(\w+)"/)?.[1] ?? namespace;
    const known = texts[own]?.has(key) || texts.app.has(key);
    if (!known) problems.push(`${relative(".", path)}: the text ${own}:${key} does not exist`);
  }
}

if (problems.length > 0) {
  console.error(problems.join("\n"));
  process.exit(1);
}
