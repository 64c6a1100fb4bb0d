// The number of sign-ins from one address is limited. The tests sign in more often, and wait as clients do.
import { setTimeout as pause } from "node:timers/promises";

const limited = /^429 POST \/api\/(auth\/login|profile\/password)$/;

// The number of sign-ins in a row that may be refused.
const patience = 3;

// waited reports whether a response, such as `429 POST /api/auth/login`, refuses a sign-in because of the limit. If it
// does, waited has first waited as long as the server requests.
export async function waited(response, retryAfter, tries) {
  if (!limited.test(response)) return false;
  if (tries >= patience || !(Number(retryAfter) > 0)) throw new Error(`${response}, try ${tries}, Retry-After ${retryAfter}`);
  await pause(1000 * Number(retryAfter));
  return true;
}
