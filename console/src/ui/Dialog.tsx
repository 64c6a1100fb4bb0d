import { X } from "lucide-react";
import { Dialog as Radix } from "radix-ui";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { cx } from "@/lib/cx";
import { IconButton } from "./IconButton";

type Props = {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  title: ReactNode;
  description?: ReactNode;
  children?: ReactNode;
  // footer has the buttons, the one for the action last.
  footer?: ReactNode;
  size?: "sm" | "md" | "lg";
  // A dialog with something that would be lost does not close by a click outside of it.
  sticky?: boolean;
};

const widths = { sm: "max-w-md", md: "max-w-xl", lg: "max-w-4xl" };

export function Dialog({
  open,
  onOpenChange,
  title,
  description,
  children,
  footer,
  size = "sm",
  sticky = false,
}: Props) {
  const { t } = useTranslation();
  return (
    <Radix.Root open={open} onOpenChange={onOpenChange}>
      <Radix.Portal>
        <Radix.Overlay className="fade-in fixed inset-0 z-40 bg-veil" />
        <Radix.Content
          onInteractOutside={sticky ? (event) => event.preventDefault() : undefined}
          {...(description ? {} : { "aria-describedby": undefined })}
          className={cx(
            "fade-in fixed inset-x-3 top-[max(0.75rem,10vh)] z-50 mx-auto flex max-h-[min(80vh,calc(100dvh-1.5rem))] flex-col rounded-xl border bg-card shadow-card outline-none",
            widths[size],
          )}
        >
          <header className="flex items-start gap-3 px-4 pt-3.5 pb-2">
            <div className="min-w-0 flex-1">
              <Radix.Title className="text-lg font-semibold tracking-tight">{title}</Radix.Title>
              {description ? (
                <Radix.Description className="mt-0.5 text-sm text-soft">{description}</Radix.Description>
              ) : null}
            </div>
            <Radix.Close asChild>
              <IconButton label={t("close")} icon={<X size={15} aria-hidden />} tip={false} />
            </Radix.Close>
          </header>
          <div className="scroll-thin min-h-0 flex-1 overflow-y-auto px-4 pb-3">{children}</div>
          {footer ? <footer className="flex flex-wrap justify-end gap-2 border-t px-4 py-3">{footer}</footer> : null}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
