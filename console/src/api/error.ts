// One problem of a request, as a 422 lists them. loc begins with body, query, path or header.
export type Problem = { loc: (string | number)[]; msg: string; type: string };

// ApiError is a refused or failed request. Its message is for logs; errorMessage returns the one for people.
export class ApiError extends Error {
  constructor(
    // 0 means that the server was not reached.
    readonly status: number,
    readonly code: string | null,
    // The server's sentence, in English. It is shown only under "details".
    readonly detail: string,
    readonly problems: Problem[],
    readonly requestId: string | null,
    // Seconds after which the request may be repeated; 0 if the server named none.
    readonly retryAfter: number,
  ) {
    super(`${status} ${code ?? ""} ${detail}`.trim());
  }
}

type Body = { detail?: unknown; code?: unknown };

// failure reads the error of a response, whose detail is a sentence or, with 422, a list of problems.
export function failure(response: Response, body: unknown): ApiError {
  const { detail, code }: Body = typeof body === "object" && body !== null ? body : {};
  const problems = Array.isArray(detail) ? detail.filter(isProblem) : [];
  const text = typeof detail === "string" ? detail : problems.map((p) => `${p.loc.join(".")}: ${p.msg}`).join("\n");
  return new ApiError(
    response.status,
    typeof code === "string" ? code : null,
    text,
    problems,
    response.headers.get("X-Request-Id"),
    retryAfter(response.headers.get("Retry-After")),
  );
}

// unreached is the error of a request that got no response.
export function unreached(cause: unknown): ApiError {
  return new ApiError(0, null, cause instanceof Error ? cause.message : String(cause), [], null, 0);
}

// toApiError makes every thrown value presentable.
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof TypeError) return unreached(error);
  return new ApiError(-1, null, error instanceof Error ? error.message : String(error), [], null, 0);
}

// problemOf returns the message for a field of the request, such as problemOf(error, "body", "spec", "name").
export function problemOf(error: ApiError | null, ...loc: (string | number)[]): string | null {
  return error?.problems.find((p) => p.loc.join("\0") === loc.join("\0"))?.msg ?? null;
}

export function retryAfter(header: string | null): number {
  const seconds = Number(header);
  return Number.isFinite(seconds) && seconds > 0 ? Math.min(seconds, 3600) : 0;
}

function isProblem(value: unknown): value is Problem {
  if (typeof value !== "object" || value === null) return false;
  const { loc, msg } = value as Partial<Problem>;
  return Array.isArray(loc) && typeof msg === "string";
}
