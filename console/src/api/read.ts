import { send } from "./client";
import { failure, toApiError } from "./error";

type Query = Record<string, string | number | boolean | undefined>;

// address returns a path of the API with the parameters that are set.
export function address(path: string, query: Query = {}): string {
  const set = Object.entries(query).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]]));
  return set.length === 0 ? path : `${path}?${new URLSearchParams(set)}`;
}

// get returns the response to a GET, or throws an ApiError.
export async function get(path: string, query: Query, signal?: AbortSignal): Promise<Response> {
  let response: Response;
  try {
    response = await send(new Request(new URL(address(path, query), location.origin), { signal }));
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw toApiError(error);
  }
  if (!response.ok) throw failure(response, await response.json().catch(() => null));
  return response;
}

// read returns the JSON of a response. Pages that read many small parts use it, with the types of Schemas.
export async function read<T>(path: string, query: Query, signal?: AbortSignal): Promise<T> {
  return (await get(path, query, signal)).json() as Promise<T>;
}
