import { afterEach } from "vitest";

// Only tests with a document need this.
if (typeof document !== "undefined") {
  const { cleanup, configure } = await import("@testing-library/react");
  const { imitate } = await import("./browser");
  imitate();
  // A failed test would print the whole page.
  configure({ getElementError: (message) => new Error(message?.split("\n")[0] ?? "") });
  afterEach(() => {
    cleanup();
    localStorage.clear();
  });
}
