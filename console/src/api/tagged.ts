import { call } from "./client";

// Tagged is what was read together with its ETag, so that a change of something newer is refused.
export type Tagged<T> = { value: T; etag: string | null };

// tagged is call for a resource whose changes take If-Match.
export async function tagged<T>(request: Parameters<typeof call<T>>[0]): Promise<Tagged<T>> {
  let etag: string | null = null;
  const value = await call(
    request.then((result) => {
      etag = result.response.headers.get("ETag");
      return result;
    }),
  );
  return { value, etag };
}

// ifMatch returns the header of a change of what was read.
export function ifMatch(etag: string | null | undefined): { "If-Match"?: string } {
  return etag ? { "If-Match": etag } : {};
}
