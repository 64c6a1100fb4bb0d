import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { queries } from "./api/query";
import { router } from "./app/router";
import { startTexts, texts } from "./i18n/i18n";
import { watchTheme } from "./theme/theme";
import "./theme/index.css";

// After an update of the server, a tab that is still open may request a part of the old console. Loading the page again gets
// the new one. If the server cannot be reached, the page stays as it is.
addEventListener("vite:preloadError", () => {
  const last = Number(sessionStorage.getItem("signalbox.reloaded") ?? 0);
  if (Date.now() - last < 60_000) return;
  fetch("/", { method: "HEAD", cache: "no-store" }).then(
    (response) => {
      if (!response.ok) return;
      sessionStorage.setItem("signalbox.reloaded", String(Date.now()));
      location.reload();
    },
    () => undefined,
  );
});

const root = document.getElementById("root");
if (!root) throw new Error("index.html has no element with the id root");

watchTheme();
await startTexts();
await texts("errors");
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={queries()}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  </StrictMode>,
);
