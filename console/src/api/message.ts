import type { TFunction } from "i18next";
import { type ApiError, toApiError } from "./error";

// errorMessage returns what went wrong in the user's language: by the code of the error, else by its status. The texts are
// in src/i18n/errors.en.json, whose namespace useErrorText loads.
export function errorMessage(t: TFunction, error: unknown): string {
  const { code, status, retryAfter } = toApiError(error);
  const keys = [...(code ? [`code.${code}`] : []), `status.${known(status)}`];
  return t(keys, { ns: "errors", seconds: retryAfter });
}

const statuses = [-1, 0, 400, 401, 403, 404, 409, 413, 422, 429, 500, 501, 502, 503];

function known(status: number): number {
  if (statuses.includes(status)) return status;
  return status >= 500 ? 500 : 400;
}

// permanent reports whether the same request would fail again.
export function permanent(error: ApiError): boolean {
  return error.status >= 400 && error.status < 500 && error.status !== 429 && error.status !== 408;
}
