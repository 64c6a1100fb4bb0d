// Member is one member of a row, as its JSON Schema describes it.
export type Member = { path: string; type: string; required: boolean; description: string };

const deepest = 4;
const most = 300;

// membersOf lists the members of a JSON Schema with their paths: those of objects, and of objects in arrays.
export function membersOf(schema: unknown): Member[] {
  const found: Member[] = [];
  collect(schema, "", 0, found);
  return found;
}

function collect(schema: unknown, prefix: string, depth: number, found: Member[]): void {
  if (!isObject(schema) || depth >= deepest) return;
  const { properties } = schema;
  const required = Array.isArray(schema.required) ? schema.required : [];
  if (isObject(properties)) {
    for (const [name, member] of Object.entries(properties)) {
      if (found.length >= most) return;
      const path = prefix === "" ? name : `${prefix}.${name}`;
      found.push({
        path,
        type: typeOf(member),
        required: required.includes(name),
        description: isObject(member) && typeof member.description === "string" ? member.description : "",
      });
      collect(member, path, depth + 1, found);
    }
  }
  if (isObject(schema.items)) collect(schema.items, `${prefix}[]`, depth + 1, found);
}

function typeOf(schema: unknown): string {
  if (!isObject(schema)) return "any";
  const { type, items } = schema;
  if (type === "array") return `array of ${typeOf(items)}`.replace(/ of any$/, "");
  if (typeof type === "string") return type;
  if (Array.isArray(type)) return type.filter((t) => typeof t === "string").join(" | ");
  return "any";
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
