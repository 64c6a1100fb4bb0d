import { type ApiError, problemOf } from "@/api/error";
import { type Path, valueAt } from "./document";

// Form is what the fields of the form need: the values, the server's problems and a way to change a value.
export type Form = {
  spec: Record<string, unknown>;
  error: ApiError | null;
  set: (path: Path, value: unknown) => void;
};

export function readAt(form: Form, path: Path): unknown {
  return valueAt(form.spec, path);
}

// textOf returns a value as the text of a field.
export function textOf(form: Form, path: Path): string {
  const value = readAt(form, path);
  return value === undefined || value === null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
}

export function problemAt(form: Form, path: Path): string | null {
  return problemOf(form.error, "body", "spec", ...path);
}
