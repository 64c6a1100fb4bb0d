import { useRouter } from "@tanstack/react-router";
import { Command } from "cmdk";
import { ArrowRight, Hash, Keyboard, LogOut, Monitor, Moon, Search, Sun } from "lucide-react";
import { Dialog } from "radix-ui";
import { lazy, type ReactNode, Suspense, useState } from "react";
import { useTranslation } from "react-i18next";
import { session } from "@/auth/browser";
import { usePreferTheme } from "@/auth/profile";
import { texts } from "@/i18n/i18n";
import { themeChoices } from "@/theme/theme";
import { Kbd } from "@/ui/Kbd";
import { allNav, jumpTo } from "./nav";
import { useProjects } from "./ProjectSwitcher";

// The results and their words are loaded with the first text.
const Results = lazy(async () => {
  const [module] = await Promise.all([import("@/screens/search/PaletteResults"), texts("search")]);
  return module;
});

const themeIcons = { system: Monitor, light: Sun, dark: Moon };

// Palette finds objects, goes to every screen, project and id, and has the commands of the console.
export default function Palette({
  onOpenChange,
  onKeys,
}: {
  onOpenChange: (open: boolean) => void;
  onKeys: () => void;
}) {
  const { t } = useTranslation();
  const router = useRouter();
  const prefer = usePreferTheme();
  const { data: projects = [] } = useProjects();
  const [text, setText] = useState("");
  const jump = jumpTo(text.trim());
  // The results say themselves that there are none: the palette counts only what it filters.
  const searched = [...text.trim()].length > 1;
  const act = (task: () => void) => () => {
    onOpenChange(false);
    task();
  };
  return (
    <Dialog.Root open onOpenChange={onOpenChange}>
      <Dialog.Portal>
        <Dialog.Overlay className="fixed inset-0 z-40 bg-veil" />
        <Dialog.Content
          aria-describedby={undefined}
          className="fixed inset-x-3 top-[12vh] z-50 mx-auto max-w-xl overflow-hidden rounded-xl border bg-card shadow-card outline-none"
        >
          <Dialog.Title className="sr-only">{t("palette.open")}</Dialog.Title>
          <Command label={t("palette.open")} loop className="flex max-h-[min(26rem,70vh)] flex-col">
            <div className="flex items-center gap-2.5 border-b px-3.5">
              <Search size={15} aria-hidden className="shrink-0 text-soft" />
              <Command.Input
                value={text}
                onValueChange={setText}
                placeholder={t("palette.placeholder")}
                className="h-11 w-full bg-transparent text-base outline-none placeholder:text-soft"
              />
            </div>
            <Command.List className="scroll-thin min-h-0 flex-1 overflow-y-auto p-1.5">
              {searched ? null : (
                <Command.Empty className="px-3 py-8 text-center text-sm text-soft">
                  {t("palette.nothing")}
                </Command.Empty>
              )}
              {jump ? (
                <Item
                  value={text}
                  icon={<Hash size={14} aria-hidden />}
                  onSelect={act(() => router.history.push(jump))}
                >
                  {t("palette.jump", { id: text.trim() })}
                </Item>
              ) : null}
              {searched ? (
                <Suspense fallback={null}>
                  <Results text={text} onGo={(path) => act(() => router.history.push(path))()} />
                </Suspense>
              ) : null}
              <Group heading={t("palette.goTo")}>
                {allNav().map((entry) => (
                  <Item
                    key={entry.label}
                    value={`${t(`nav.${entry.label}`)} ${entry.label}`}
                    icon={<entry.icon size={14} aria-hidden />}
                    keys={entry.key ? `g ${entry.key}` : undefined}
                    onSelect={act(() => void router.navigate({ to: entry.to }))}
                  >
                    {t(`nav.${entry.label}`)}
                  </Item>
                ))}
              </Group>
              <Group heading={t("palette.projects")}>
                {projects.slice(0, 50).map((p) => (
                  <Item
                    key={p.id}
                    value={`${p.name} ${p.key}`}
                    icon={<ArrowRight size={14} aria-hidden />}
                    onSelect={act(
                      () => void router.navigate({ to: ".", search: (before) => ({ ...before, project: p.key }) }),
                    )}
                  >
                    {p.name}
                  </Item>
                ))}
              </Group>
              <Group heading={t("palette.commands")}>
                {themeChoices.map((theme) => {
                  const Icon = themeIcons[theme];
                  return (
                    <Item
                      key={theme}
                      value={`${t("theme.title")} ${t(`theme.${theme}`)} theme ${theme}`}
                      icon={<Icon size={14} aria-hidden />}
                      onSelect={act(() => prefer(theme))}
                    >
                      {t("palette.theme", { name: t(`theme.${theme}`) })}
                    </Item>
                  );
                })}
                <Item
                  value={`${t("keys.title")} keys`}
                  icon={<Keyboard size={14} aria-hidden />}
                  keys="?"
                  onSelect={onKeys}
                >
                  {t("keys.title")}
                </Item>
                <Item
                  value={`${t("signOut")} sign out`}
                  icon={<LogOut size={14} aria-hidden />}
                  onSelect={act(() => void session.end())}
                >
                  {t("signOut")}
                </Item>
              </Group>
            </Command.List>
          </Command>
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

function Group({ heading, children }: { heading: string; children: ReactNode }) {
  return (
    <Command.Group
      heading={heading}
      className="[&_[cmdk-group-heading]]:px-2 [&_[cmdk-group-heading]]:pt-2 [&_[cmdk-group-heading]]:pb-1 [&_[cmdk-group-heading]]:text-2xs [&_[cmdk-group-heading]]:text-soft"
    >
      {children}
    </Command.Group>
  );
}

type ItemProps = { value: string; icon: ReactNode; keys?: string; onSelect: () => void; children: ReactNode };

function Item({ value, icon, keys, onSelect, children }: ItemProps) {
  return (
    <Command.Item
      value={value}
      onSelect={onSelect}
      className="flex h-8 cursor-pointer items-center gap-2.5 rounded-md px-2 text-sm select-none data-[selected=true]:bg-hover"
    >
      <span className="text-soft">{icon}</span>
      <span className="min-w-0 flex-1 truncate">{children}</span>
      {keys ? <Kbd keys={keys} /> : null}
    </Command.Item>
  );
}
