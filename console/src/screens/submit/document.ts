import { isMap, isScalar, parseDocument } from "yaml";

export type Path = readonly (string | number)[];

// The spec in a text, or why there is none, with the line of the mistake.
export type Parsed = { spec: Record<string, unknown>; problem: null } | { spec: null; problem: Problem };
export type Problem = { line: number; message: string };

// The API takes no larger body of a submission.
const longest = 1_000_000;
const options = { lineWidth: 0 };

// parse reads the YAML of a spec.
export function parse(text: string): Parsed {
  if (text.length > longest) return broken(0, `more than ${longest} characters`);
  const doc = parseDocument(text);
  const [error] = doc.errors;
  if (error) return broken(error.linePos?.[0].line ?? 0, error.message.split("\n")[0] ?? "");
  try {
    const value: unknown = doc.toJS();
    if (typeof value === "object" && value !== null && !Array.isArray(value))
      return { spec: value as Record<string, unknown>, problem: null };
  } catch (thrown) {
    // Too many aliases.
    return broken(0, thrown instanceof Error ? thrown.message : String(thrown));
  }
  return broken(1, "");
}

function broken(line: number, message: string): Parsed {
  return { spec: null, problem: { line, message } };
}

// set changes one value of a YAML text and leaves the rest of it, with its comments and its order, as it is. undefined
// removes the value, and the maps around it that become empty.
export function set(text: string, path: Path, value: unknown): string {
  const doc = parseDocument(text);
  if (doc.errors.length > 0) return text;
  if (value === undefined) {
    remove(doc, path);
    return doc.toString(options);
  }
  // A key without a value, such as "hparams:", is null, in which nothing can be set.
  for (let end = 1; end < path.length; end++) {
    const part = doc.getIn(path.slice(0, end), true);
    if (part === null || (isScalar(part) && part.value === null)) doc.setIn(path.slice(0, end), doc.createNode({}));
  }
  doc.setIn(path, typeof value === "object" ? doc.createNode(value) : value);
  return doc.toString(options);
}

function remove(doc: ReturnType<typeof parseDocument>, path: Path): void {
  if (!doc.hasIn(path)) return;
  doc.deleteIn(path);
  const parent = path.slice(0, -1);
  const rest = parent.length > 0 ? doc.getIn(parent, true) : null;
  if (isMap(rest) && rest.items.length === 0 && typeof parent.at(-1) === "string") remove(doc, parent);
}

// valueAt returns a value of a spec, or undefined.
export function valueAt(spec: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (value, key) => (typeof value === "object" && value !== null ? (value as Record<string, unknown>)[key] : undefined),
    spec,
  );
}
