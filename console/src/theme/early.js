// Sets the theme before the first paint. src/theme/theme.ts stores the choice.
(() => {
  let choice = "system";
  try {
    choice = localStorage.getItem("signalbox.theme") || "system";
  } catch {
    // A browser that forbids storage follows the system.
  }
  const dark = choice === "dark" || (choice !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
