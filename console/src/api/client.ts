import createClient from "openapi-fetch";
import { session } from "@/auth/browser";
import { authorizedFetch } from "./authorized";
import { failure, toApiError } from "./error";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

// send is fetch with the access token of this session. Streams and downloads use it directly.
export const send = authorizedFetch(session, (request) => fetch(request));

// api has one method for each HTTP method, with typed paths, parameters and bodies. Lists in a query are repeated, as
// the API expects (label=a&label=b).
export const api = createClient<paths>({
  baseUrl: location.origin,
  credentials: "same-origin",
  fetch: send,
  querySerializer: { array: { style: "form", explode: true } },
});

type Result<T> = { data?: T; error?: unknown; response: Response };

// call returns the body of a response and throws an ApiError for a failure:
//
//   const job = await call(api.GET("/api/jobs/{job_id}", { params: { path: { job_id: id } }, signal }));
export async function call<T>(request: Promise<Result<T>>): Promise<T> {
  let result: Result<T>;
  try {
    result = await request;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw toApiError(error);
  }
  if (!result.response.ok) throw failure(result.response, result.error);
  return result.data as T;
}
