import { vi } from "vitest";

// imitate adds what jsdom lacks and the console uses.
export function imitate(): void {
  vi.stubGlobal("matchMedia", (query: string) => ({
    matches: false,
    media: query,
    addEventListener: () => undefined,
    removeEventListener: () => undefined,
  }));
  vi.stubGlobal(
    "ResizeObserver",
    class {
      observe() {}
      unobserve() {}
      disconnect() {}
    },
  );
  // The signals of jsdom are not those of Node's requests.
  vi.stubGlobal(
    "Request",
    class extends Request {
      constructor(input: RequestInfo | URL, init: RequestInit = {}) {
        super(input, { ...init, signal: undefined });
      }
    },
  );
  Element.prototype.scrollIntoView = () => undefined;
  Element.prototype.hasPointerCapture = () => false;
  // Lists show only the rows that fit into their height.
  for (const [name, value] of Object.entries({
    offsetHeight: 640,
    offsetWidth: 1200,
    clientHeight: 640,
    clientWidth: 1200,
  })) {
    Object.defineProperty(HTMLElement.prototype, name, { configurable: true, value });
  }
  Element.prototype.getBoundingClientRect = () => new DOMRect(0, 0, 1200, 640);
}
