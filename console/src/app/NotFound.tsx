import { Link, useLocation } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { useTitle } from "@/lib/title";
import { buttonClass } from "@/ui/Button";
import { UntrustedText } from "@/ui/UntrustedText";

export function NotFound() {
  const { t } = useTranslation();
  const { pathname } = useLocation();
  useTitle(t("notFound.title"));
  return (
    <div className="mx-auto grid w-full max-w-lg gap-3 px-4 py-14">
      <h1 className="text-lg font-semibold">{t("notFound.title")}</h1>
      <p className="text-sm text-soft">
        {t("notFound.why")} <UntrustedText text={pathname} longest={120} className="font-mono text-xs" />
      </p>
      <div>
        <Link to="/" className={buttonClass()}>
          {t("notFound.home")}
        </Link>
      </div>
    </div>
  );
}
