import { X } from "lucide-react";
import { Dialog } from "radix-ui";
import { useTranslation } from "react-i18next";
import { IconButton } from "@/ui/IconButton";
import { Brand } from "./Brand";
import { NavList } from "./NavList";

// Drawer is the whole navigation on a phone.
export default function Drawer({ onOpenChange }: { onOpenChange: (open: boolean) => void }) {
  const { t } = useTranslation();
  return (
    <Dialog.Root open onOpenChange={onOpenChange}>
      <Dialog.Portal>
        <Dialog.Overlay className="fade-in fixed inset-0 z-40 bg-veil md:hidden" />
        <Dialog.Content
          aria-describedby={undefined}
          className="fade-in fixed inset-y-0 left-0 z-50 flex w-72 max-w-[85vw] flex-col border-r bg-card outline-none md:hidden"
        >
          <Dialog.Title className="sr-only">{t("navigation")}</Dialog.Title>
          <div className="flex h-12 items-center justify-between px-3">
            <Brand />
            <Dialog.Close asChild>
              <IconButton label={t("close")} tip={false} icon={<X size={16} aria-hidden />} />
            </Dialog.Close>
          </div>
          <div className="scroll-thin min-h-0 flex-1 overflow-y-auto px-2 pb-4">
            <NavList onGo={() => onOpenChange(false)} />
          </div>
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
