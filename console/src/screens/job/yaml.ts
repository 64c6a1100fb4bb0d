// toYaml writes a JSON value as YAML. It quotes each string that YAML could read as something else.
export function toYaml(value: unknown): string {
  return isEmpty(value) || typeof value !== "object" ? `${scalar(value)}\n` : `${block(value, "")}\n`;
}

function block(value: object | null, indent: string): string {
  if (Array.isArray(value)) {
    return value
      .map((item: unknown) => {
        if (isEmpty(item) || typeof item !== "object") return `${indent}- ${scalar(item)}`;
        // The first line of the item stands beside the dash.
        return `${indent}- ${block(item, `${indent}  `).slice(indent.length + 2)}`;
      })
      .join("\n");
  }
  return Object.entries(value ?? {})
    .map(([key, item]: [string, unknown]) => {
      const name = `${indent}${text(key)}:`;
      if (isEmpty(item) || typeof item !== "object") return `${name} ${scalar(item)}`;
      return `${name}\n${block(item, `${indent}  `)}`;
    })
    .join("\n");
}

function isEmpty(value: unknown): boolean {
  return typeof value === "object" && (value === null || Object.keys(value).length === 0);
}

function scalar(value: unknown): string {
  if (Array.isArray(value)) return "[]";
  if (value === null || value === undefined) return "null";
  if (typeof value === "object") return "{}";
  return typeof value === "string" ? text(value) : String(value);
}

const plain = /^[A-Za-z_./][\w./@+-]*(?: [\w./@+-]+)*$/;
const special = /^(?:null|true|false|yes|no|on|off|y|n|\.nan|\.inf)$/i;

// A JSON string is a valid YAML string in double quotes.
function text(value: string): string {
  return plain.test(value) && !special.test(value) ? value : JSON.stringify(value);
}
