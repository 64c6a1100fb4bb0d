import { ListFilter } from "lucide-react";
import { useTranslation } from "react-i18next";
import { session } from "@/auth/browser";
import { Button, DropdownMenu, MenuCheck } from "@/ui";
import { kinds } from "./found";

// Kinds chooses the kinds of objects that are searched. Only admins find users.
export function Kinds({ chosen, onChoose }: { chosen: readonly string[]; onChoose: (kinds: string[]) => void }) {
  const { t } = useTranslation("search");
  const offered = kinds.filter((kind) => kind !== "user" || session.user?.role === "admin");
  return (
    <DropdownMenu
      trigger={
        <Button icon={<ListFilter size={13} aria-hidden />}>
          {chosen.length === 0 ? t("allKinds") : chosen.map((kind) => t(`kinds.${kind}`)).join(t("and"))}
        </Button>
      }
    >
      {offered.map((kind) => (
        <MenuCheck
          key={kind}
          checked={chosen.includes(kind)}
          onChange={(on) => onChoose(on ? [...chosen, kind] : chosen.filter((k) => k !== kind))}
        >
          {t(`kinds.${kind}`)}
        </MenuCheck>
      ))}
    </DropdownMenu>
  );
}
