import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { Button, ErrorPanel, PageBody, PageHeader, SkeletonLines } from "@/ui";
import { hardwareRoute } from "./area";
import { HardwareEditor } from "./HardwareEditor";
import { HardwareTables } from "./HardwareTables";
import { loadHardware } from "./hardware";

export function HardwareScreen() {
  const { t } = useTranslation("admin");
  const { view } = hardwareRoute.useSearch();
  const navigate = useNavigate({ from: hardwareRoute.fullPath });
  const query = useQuery({
    queryKey: ["admin", "hardware"],
    queryFn: ({ signal }) => loadHardware(signal),
  });
  const show = (next: "edit" | undefined) => void navigate({ to: ".", search: (s) => ({ ...s, view: next }) });
  const edit =
    query.data && view !== "edit" ? (
      <Button variant="primary" onClick={() => show("edit")}>
        {t("edit")}
      </Button>
    ) : null;
  return (
    <>
      <PageHeader name={t("hardware")} actions={edit} />
      {query.data ? (
        <PageBody>
          {view === "edit" ? (
            <HardwareEditor loaded={query.data} onDone={() => show(undefined)} />
          ) : (
            <HardwareTables config={query.data.config} />
          )}
        </PageBody>
      ) : query.error ? (
        <ErrorPanel error={query.error} onRetry={() => void query.refetch()} />
      ) : (
        <SkeletonLines lines={6} className="max-w-2xl px-6" />
      )}
    </>
  );
}
