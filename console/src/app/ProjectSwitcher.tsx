import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Check, ChevronsUpDown, FolderKanban } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { DropdownMenu, MenuItem, MenuSeparator } from "@/ui/DropdownMenu";
import { Input } from "@/ui/Input";

const most = 200;

// useProjects reads the projects that the user may read. The switcher shows at most 200 of them.
export function useProjects() {
  return useQuery({
    queryKey: ["projects", "switcher"],
    queryFn: ({ signal }) => call(api.GET("/api/projects", { params: { query: { limit: most } }, signal })),
    staleTime: 30_000,
  });
}

// ProjectSwitcher chooses the project that the lists are about. It is part of the address.
export function ProjectSwitcher() {
  const { t } = useTranslation();
  const { project } = useSearch({ strict: false });
  const navigate = useNavigate();
  const { data: projects = [] } = useProjects();
  const [filter, setFilter] = useState("");
  const found = projects.filter(
    (p) => !p.archived_at && `${p.key} ${p.name}`.toLowerCase().includes(filter.trim().toLowerCase()),
  );
  const choose = (key: string | undefined) =>
    void navigate({ to: ".", search: (before) => ({ ...before, project: key }) });
  const current = projects.find((p) => p.key === project);
  return (
    <DropdownMenu
      align="start"
      onOpenChange={() => setFilter("")}
      trigger={
        <button
          type="button"
          aria-label={t("project.switch", { name: current?.name ?? project ?? t("project.all") })}
          className="flex h-7 max-w-44 min-w-0 items-center gap-2 rounded-md px-1.5 text-sm font-medium hover:bg-hover data-[state=open]:bg-hover"
        >
          <FolderKanban size={14} aria-hidden className="shrink-0 text-soft" />
          <span className="truncate">{current?.name ?? project ?? t("project.all")}</span>
          <ChevronsUpDown size={13} aria-hidden className="shrink-0 text-soft" />
        </button>
      }
    >
      {projects.length > 8 ? (
        <Input
          autoFocus
          aria-label={t("project.find")}
          placeholder={t("project.find")}
          value={filter}
          onChange={(event) => setFilter(event.target.value)}
          onKeyDown={(event) => event.key !== "Escape" && event.key !== "ArrowDown" && event.stopPropagation()}
          className="mb-1"
        />
      ) : null}
      <MenuItem icon={<Mark on={!project} />} onSelect={() => choose(undefined)}>
        {t("project.all")}
      </MenuItem>
      <MenuSeparator />
      {found.map((p) => (
        <MenuItem key={p.id} icon={<Mark on={p.key === project} />} onSelect={() => choose(p.key)}>
          {p.name} <span className="text-soft">{p.key === p.name ? "" : p.key}</span>
        </MenuItem>
      ))}
    </DropdownMenu>
  );
}

function Mark({ on }: { on: boolean }) {
  return on ? <Check size={13} aria-hidden className="text-accent" /> : null;
}
