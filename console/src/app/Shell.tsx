import { Outlet, useMatches } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useState } from "react";
import { useTranslation } from "react-i18next";
import { useProfile } from "@/auth/profile";
import { ZoneProvider } from "@/lib/prefs";
import { Toaster } from "@/ui/Toaster";
import { Header } from "./Header";
import { useKeys } from "./keys";
import { Notices } from "./Notices";
import { PhoneBar } from "./PhoneNav";
import { Sidebar } from "./Sidebar";

const loadPalette = () => import("./Palette");
const Palette = lazy(loadPalette);
const Drawer = lazy(() => import("./Drawer"));
const StaleNotice = lazy(() => import("./StaleNotice"));
const CheatSheet = lazy(() => import("./CheatSheet"));

export type Overlay = "palette" | "keys" | "drawer" | null;

// Shell is the frame of all screens.
export function Shell() {
  const bare = useMatches({ select: (matches) => matches.at(-1)?.staticData.bare === true });
  return (
    <>
      {bare ? <Outlet /> : <Frame />}
      <Toaster />
    </>
  );
}

function Frame() {
  const { t } = useTranslation();
  const profile = useProfile();
  const [overlay, setOverlay] = useState<Overlay>(null);
  useKeys(setOverlay);
  // The palette opens at once if its code is there before the keys are pressed.
  useEffect(() => {
    const timer = setTimeout(() => void loadPalette().catch(() => undefined), 1500);
    return () => clearTimeout(timer);
  }, []);
  const close = (open: boolean) => {
    if (!open) setOverlay(null);
  };
  return (
    <ZoneProvider zone={profile.data?.tz}>
      <a
        href="#main"
        className="sr-only z-50 rounded-md bg-accent px-3 py-2 text-on-accent focus:not-sr-only focus:fixed focus:top-2 focus:left-2"
      >
        {t("skip")}
      </a>
      <div className="flex h-dvh">
        <Sidebar />
        <div className="flex min-w-0 flex-1 flex-col">
          <Header onOverlay={setOverlay} />
          <Notices />
          <Suspense fallback={null}>
            <StaleNotice />
          </Suspense>
          <main
            id="main"
            tabIndex={-1}
            className="scroll-thin flex min-h-0 flex-1 flex-col overflow-y-auto outline-none"
          >
            <Outlet />
          </main>
          <PhoneBar onMore={() => setOverlay("drawer")} />
        </div>
      </div>
      <Suspense fallback={null}>
        {overlay === "palette" ? <Palette onOpenChange={close} onKeys={() => setOverlay("keys")} /> : null}
        {overlay === "drawer" ? <Drawer onOpenChange={close} /> : null}
        {overlay === "keys" ? <CheatSheet onOpenChange={close} /> : null}
      </Suspense>
    </ZoneProvider>
  );
}
