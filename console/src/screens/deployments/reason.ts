import { useTranslation } from "react-i18next";
import { visible } from "@/lib/untrusted";
import type { Reason } from "./deployment";

// useReason returns why something is not ready, in the user's language where the code is known.
export function useReason(reason: Reason | null | undefined): string | null {
  const { t } = useTranslation("deployments");
  if (!reason) return null;
  return t(`reasons.${reason.code}`, { defaultValue: visible(reason.message || reason.code, 500).text });
}
