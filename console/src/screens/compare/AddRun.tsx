import { useQuery } from "@tanstack/react-query";
import { Plus } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { Button, Dialog, ErrorNote, Input, SkeletonLines, StateBadge, Time, UntrustedText } from "@/ui";
import { compareRoute } from "./area";
import { mostRuns } from "./search";

// AddRun finds a run by its name or id and adds it to the comparison.
export function AddRun({ onAdd }: { onAdd: (id: string) => void }) {
  const { t } = useTranslation("compare");
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button icon={<Plus size={13} aria-hidden />} onClick={() => setOpen(true)}>
        {t("add")}
      </Button>
      {open ? (
        <Dialog
          open
          size="md"
          onOpenChange={setOpen}
          title={t("addTitle")}
          description={t("addWhat", { most: mostRuns })}
        >
          <Finder
            onAdd={(id) => {
              onAdd(id);
              setOpen(false);
            }}
          />
        </Dialog>
      ) : null}
    </>
  );
}

function Finder({ onAdd }: { onAdd: (id: string) => void }) {
  const { t } = useTranslation("compare");
  const { project, runs = "" } = compareRoute.useSearch();
  const [q, setQ] = useState("");
  const { data, error } = useQuery({
    queryKey: ["runs", "find", q, project],
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/runs", { params: { query: { q: q || undefined, state: "all", limit: 20, project } }, signal }),
      ),
    placeholderData: (before) => before,
  });
  const others = data?.filter((run) => !runs.includes(run.id));
  return (
    <div className="grid gap-2">
      <Input
        autoFocus
        aria-label={t("find")}
        placeholder={t("find")}
        value={q}
        maxLength={200}
        onChange={(event) => setQ(event.target.value)}
      />
      {error ? <ErrorNote error={error} /> : !others ? <SkeletonLines lines={3} /> : null}
      {others?.length === 0 ? <p className="py-2 text-soft">{t("noneFound")}</p> : null}
      <ul className="grid">
        {others?.map((run) => (
          <li key={run.id}>
            <button
              type="button"
              onClick={() => onAdd(run.id)}
              className="flex h-8 w-full items-center gap-3 rounded-md px-2 text-left hover:bg-hover"
            >
              <UntrustedText text={run.name} longest={80} className="min-w-0 flex-1 truncate font-medium" />
              <StateBadge state={run.state} />
              <span className="w-20 text-right text-xs text-soft">
                <Time at={run.created_at} />
              </span>
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}
