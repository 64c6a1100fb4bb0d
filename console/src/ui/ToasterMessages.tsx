import { useEffect } from "react";
import { Toaster as Sonner } from "sonner";
import { useTheme } from "@/theme/theme";

const classNames = {
  toast: "!rounded-lg !border !border-line !bg-card !text-ink !text-sm !shadow-card !font-sans",
  description: "!text-soft !text-xs",
  actionButton: "!bg-accent !text-on-accent",
};

// A message that is sent before this component is mounted would be lost, so it reports when it is.
export default function ToasterMessages({ onReady }: { onReady: () => void }) {
  useEffect(onReady, [onReady]);
  const { shown } = useTheme();
  return <Sonner theme={shown} position="bottom-right" gap={8} toastOptions={{ classNames }} />;
}
