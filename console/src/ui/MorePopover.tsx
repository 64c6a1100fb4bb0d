import { SlidersHorizontal } from "lucide-react";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { cx } from "@/lib/cx";
import { Button } from "./Button";
import { Popover } from "./Popover";

type Props = {
  name: string;
  // count is how many of the controls are not as they are at first. It stays visible while they are hidden.
  count: number;
  children: ReactNode;
  // onClear sets them all back.
  onClear?: () => void;
  size?: "sm" | "md";
};

// MorePopover has the controls that a bar has no room for. In a narrow window its button has no text.
export function MorePopover({ name, count, children, onClear, size }: Props) {
  const { t } = useTranslation();
  return (
    <Popover
      label={name}
      trigger={
        <Button
          size={size}
          title={name}
          icon={<SlidersHorizontal size={13} aria-hidden className={cx(count > 0 && "text-accent")} />}
        >
          <span className="max-sm:sr-only">{name}</span>
          {count > 0 ? (
            <>
              <span aria-hidden className="tabular min-w-4 rounded bg-tint px-1 text-2xs leading-4 text-accent">
                {count}
              </span>
              <span className="sr-only">{t("moreSet", { count })}</span>
            </>
          ) : null}
        </Button>
      }
    >
      <div className="grid gap-3">
        {children}
        {onClear && count > 0 ? (
          <Button size="sm" variant="quiet" className="justify-self-end" onClick={onClear}>
            {t("clearFilters")}
          </Button>
        ) : null}
      </div>
    </Popover>
  );
}
