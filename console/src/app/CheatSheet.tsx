import { useTranslation } from "react-i18next";
import { Dialog } from "@/ui/Dialog";
import { Kbd } from "@/ui/Kbd";
import { allNav } from "./nav";

// CheatSheet lists the keys of the console.
export default function CheatSheet({ onOpenChange }: { onOpenChange: (open: boolean) => void }) {
  const { t } = useTranslation();
  const go = allNav().flatMap((entry) =>
    entry.key ? [{ keys: `g ${entry.key}`, text: t(`nav.${entry.label}`) }] : [],
  );
  const sections = [
    {
      title: t("keys.everywhere"),
      rows: [
        { keys: "Ctrl K", text: t("palette.open") },
        { keys: "/", text: t("keys.filter") },
        { keys: "c", text: t("nav.submit") },
        { keys: "?", text: t("keys.title") },
      ],
    },
    { title: t("palette.goTo"), rows: go },
    {
      title: t("keys.lists"),
      rows: [
        { keys: "j k", text: t("keys.move") },
        { keys: "Enter", text: t("keys.open") },
        { keys: "x", text: t("keys.select") },
        { keys: "Esc", text: t("keys.unselect") },
      ],
    },
  ];
  return (
    <Dialog open onOpenChange={onOpenChange} title={t("keys.title")}>
      {sections.map((section) => (
        <section key={section.title} className="mt-3 first:mt-0">
          <h3 className="text-2xs font-medium text-soft">{section.title}</h3>
          <dl className="mt-1 divide-y">
            {section.rows.map((row) => (
              <div key={row.keys} className="flex h-8 items-center justify-between">
                <dt className="text-sm">{row.text}</dt>
                <dd>
                  <Kbd keys={row.keys} />
                </dd>
              </div>
            ))}
          </dl>
        </section>
      ))}
    </Dialog>
  );
}
