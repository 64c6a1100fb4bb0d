import { Link, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useCallback, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { plain } from "@/lib/untrusted";
import {
  buttonClass,
  ColumnChooser,
  ErrorPanel,
  LoadMore,
  PageHeader,
  ReconnectingBar,
  StaleBar,
  Table,
  useColumns,
} from "@/ui";
import { jobsRoute } from "./area";
import { BulkBar } from "./BulkBar";
import type { Pending } from "./ConfirmAction";
import { useJobColumns } from "./columns";
import { filtered, type JobsSearch } from "./filters";
import { JobFilters } from "./JobFilters";
import { JobMenu } from "./JobMenu";
import { JobsEmpty } from "./JobsEmpty";
import type { Job } from "./job";
import { useJobs } from "./use-jobs";

const ConfirmAction = lazy(() => import("./ConfirmAction"));
const CloneDialog = lazy(() => import("../job/actions/CloneDialog").then((m) => ({ default: m.CloneDialog })));

const idOf = (job: Job) => job.id;
const nameOf = (job: Job) => plain(job.name) ?? job.id;

// JobsScreen is the table of jobs. It changes while jobs do.
export function JobsScreen() {
  const { t } = useTranslation("jobs");
  const search = jobsRoute.useSearch();
  const navigate = useNavigate({ from: "/jobs" });
  const live = useJobs(search);
  const columns = useJobColumns();
  const { hidden, show } = useColumns("jobs", columns);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [pending, setPending] = useState<Pending | null>(null);
  const [cloning, setCloning] = useState<Job | null>(null);
  const open = (job: Job) => void navigate({ to: "/jobs/$id/{-$tab}", params: { id: job.id, tab: undefined } });
  const chosen = useMemo(() => live.rows.filter((job) => selected.has(job.id)), [live.rows, selected]);

  const filter = useCallback(
    (change: Partial<JobsSearch>) => {
      setSelected(new Set());
      void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
    },
    [navigate],
  );

  return (
    <>
      <PageHeader
        name={t("title")}
        actions={
          <Link to="/submit" className={buttonClass("primary")}>
            {t("nav.submit")}
          </Link>
        }
      />
      <JobFilters
        search={search}
        onChange={filter}
        end={<ColumnChooser columns={columns} hidden={hidden} onShow={show} />}
      />
      <ReconnectingBar state={live.stream} />
      {live.stale ? <StaleBar error={live.stale} onRetry={live.retry} /> : null}
      {live.error && live.rows.length === 0 ? (
        <ErrorPanel error={live.error} onRetry={live.retry} />
      ) : !live.pending && live.rows.length === 0 ? (
        <JobsEmpty
          filtered={filtered(search)}
          project={search.project}
          onClear={() => filter({ q: undefined, state: undefined, owner: undefined, label: undefined })}
        />
      ) : (
        <Table
          label={t("title")}
          rows={live.rows}
          columns={columns}
          rowId={idOf}
          rowName={nameOf}
          hidden={hidden}
          selected={selected}
          onSelect={setSelected}
          onOpen={open}
          menu={(job) => (
            <JobMenu
              job={job}
              onAction={(action) => setPending({ action, jobs: [job] })}
              onClone={() => setCloning(job)}
            />
          )}
          pending={live.pending}
          footer={<LoadMore more={live.more} busy={live.loadingMore} onMore={live.loadMore} />}
        />
      )}
      <BulkBar
        jobs={chosen}
        onAction={(action, jobs) => setPending({ action, jobs })}
        onClear={() => setSelected(new Set())}
      />
      <Suspense fallback={null}>
        {cloning ? <CloneDialog job={cloning} onClose={() => setCloning(null)} onCreated={open} /> : null}
        {pending ? (
          <ConfirmAction
            pending={pending}
            onClose={() => setPending(null)}
            onChanged={(job) => {
              live.put(job);
              setSelected(new Set());
            }}
          />
        ) : null}
      </Suspense>
    </>
  );
}
