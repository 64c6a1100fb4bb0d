import { lazy } from "react";
import { texts } from "@/i18n/i18n";

// LineageTab is loaded with its texts when a screen first shows it. The screen puts it into a Suspense.
export const LineageTab = lazy(() =>
  Promise.all([import("./LineageTab"), texts("lineage")]).then(([m]) => ({ default: m.LineageTab })),
);
