import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { call } from "@/api/client";
import { ErrorNote, Nothing, SkeletonLines, UntrustedText } from "@/ui";
import type { Shared } from "./api";
import { open } from "./public";

// SharedConfigs shows the hyperparameters, one column for each run. Those that differ are marked.
export function SharedConfigs({ token, shared }: { token: string; shared: Shared }) {
  const { t } = useTranslation("shares");
  const configs = useQuery({
    queryKey: ["share", token, "config", shared.runs.length],
    queryFn: ({ signal }) =>
      Promise.all(
        shared.runs.map((_, run) =>
          call(open.GET("/api/share/{token}/config", { params: { path: { token }, query: { run } }, signal })),
        ),
      ),
  });
  const values = configs.data?.map((config) => (config.hparams ?? {}) as Record<string, unknown>) ?? [];
  const keys = [...new Set(values.flatMap((value) => Object.keys(value)))].sort();
  return (
    <section className="grid gap-2">
      <h2 className="text-sm font-semibold">{t("field.config")}</h2>
      {configs.error ? <ErrorNote error={configs.error} /> : null}
      {configs.isPending ? <SkeletonLines lines={3} /> : null}
      {configs.data && keys.length === 0 ? <p className="text-sm text-soft">{t("noConfig")}</p> : null}
      {keys.length > 0 ? (
        <div
          className="scroll-thin overflow-x-auto rounded-lg border bg-card"
          role="region"
          // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
          tabIndex={0}
          aria-label={t("field.config")}
        >
          <table className="w-full text-left text-xs">
            <tbody className="divide-y">
              {keys.map((key) => {
                const cells = values.map((value) => (key in value ? shownAs(value[key]) : null));
                const differs = new Set(cells).size > 1;
                return (
                  <tr key={key} className={differs ? "bg-warn-tint" : undefined}>
                    <th scope="row" className="px-3 py-1 font-mono font-normal text-soft">
                      <UntrustedText text={key} longest={128} />
                    </th>
                    {cells.map((cell, at) => (
                      // biome-ignore lint/suspicious/noArrayIndexKey: a run is known by its place in the link
                      <td key={at} className="px-3 py-1 font-mono tabular">
                        {cell === null ? <Nothing /> : <UntrustedText text={cell} longest={200} />}
                      </td>
                    ))}
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      ) : null}
    </section>
  );
}

function shownAs(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
