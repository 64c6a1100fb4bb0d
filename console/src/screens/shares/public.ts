import createClient from "openapi-fetch";
import type { paths } from "@/api/schema";

// open is the client of public pages. It sends no cookie, no access token and no referrer, so that a link shows the same to
// everyone.
export const open = createClient<paths>({
  baseUrl: location.origin,
  credentials: "omit",
  querySerializer: { array: { style: "form", explode: true } },
  fetch: (request: Request) =>
    fetch(request, { credentials: "omit", referrerPolicy: "no-referrer", cache: "no-store" }),
});
