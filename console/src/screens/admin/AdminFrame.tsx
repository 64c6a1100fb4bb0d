import { Link, Outlet } from "@tanstack/react-router";
import { ShieldAlert } from "lucide-react";
import { useTranslation } from "react-i18next";
import { session } from "@/auth/browser";
import { useTitle } from "@/lib/title";
import { buttonClass } from "@/ui";

// AdminFrame shows the screens of admins. The API refuses what others try; this page states that beforehand.
export function AdminFrame() {
  return session.user?.role === "admin" ? <Outlet /> : <Forbidden />;
}

function Forbidden() {
  const { t } = useTranslation("admin");
  useTitle(t("forbidden"));
  return (
    <div className="mx-auto grid w-full max-w-lg gap-3 px-4 py-14">
      <ShieldAlert size={20} aria-hidden className="text-warn" />
      <h1 className="text-lg font-semibold">{t("forbidden")}</h1>
      <p className="text-sm text-soft">{t("forbiddenWhy")}</p>
      <div>
        <Link to="/" className={buttonClass()}>
          {t("forbiddenHome")}
        </Link>
      </div>
    </div>
  );
}
