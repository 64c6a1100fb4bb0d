import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { CopyButton, UntrustedText } from "@/ui";

type Props = { id: string; project: string; owner: string; other?: { run?: string | null; job?: string | null } };

// Identity is the line of ids and names below the title of a job or a run.
export function Identity({ id, project, owner, other }: Props) {
  const { t } = useTranslation("job");
  return (
    <div className="flex flex-wrap items-center gap-x-3 gap-y-1 text-xs text-soft">
      <span className="inline-flex items-center gap-0.5 font-mono">
        {id}
        <CopyButton text={id} label={t("copyId")} />
      </span>
      <UntrustedText text={project} />
      <UntrustedText text={owner} />
      {other?.run ? (
        <Link to="/runs/$id/{-$tab}" params={{ id: other.run }} className="text-accent hover:underline">
          {t("openRun")}
        </Link>
      ) : null}
      {other?.job ? (
        <Link to="/jobs/$id/{-$tab}" params={{ id: other.job }} className="text-accent hover:underline">
          {t("openJob")}
        </Link>
      ) : null}
    </div>
  );
}
