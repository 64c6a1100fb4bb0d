import { createContext, type ReactNode, useContext, useMemo } from "react";
import { tag } from "@/i18n/i18n";
import { zoneOr } from "./format";

type Formats = { tag: string; zone: string | undefined };
const Zone = createContext<string | undefined>(undefined);

// ZoneProvider sets the time zone of all times; the profile stores it.
export function ZoneProvider({ zone, children }: { zone: string | null | undefined; children: ReactNode }) {
  return <Zone value={zoneOr(zone)}>{children}</Zone>;
}

// useFormats returns the language tag and the time zone for the functions of lib/format.
export function useFormats(): Formats {
  const zone = useContext(Zone);
  return useMemo(() => ({ tag, zone }), [zone]);
}
