import { Session } from "./session";

// loginPath returns the address of the sign-in page, which leads back to the given path of this console.
export function loginPath(here: string): string {
  return here === "/" || !here.startsWith("/") || here.startsWith("//")
    ? "/login"
    : `/login?next=${encodeURIComponent(here)}`;
}

// exclusive runs a task while no other tab runs one. Browsers have locks only on secure origins; without them, two tabs
// may refresh at once, and one of them has to sign in again.
function exclusive<T>(task: () => Promise<T>): Promise<T> {
  if (!navigator.locks) return task();
  return navigator.locks.request("signalbox.refresh", task) as Promise<T>;
}

export const session = new Session({
  fetch: (...args) => fetch(...args),
  channel: new BroadcastChannel("signalbox.session"),
  exclusive,
  leave: () => location.assign(loginPath(location.pathname + location.search)),
});
