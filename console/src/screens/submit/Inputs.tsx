import { useQuery } from "@tanstack/react-query";
import { useId } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { TextField } from "./fields";
import { type Form, textOf } from "./form";
import type { Input } from "./start";

const most = 100;

// Inputs binds datasets and a model. The fields suggest the newest versions of what the user may read.
export function Inputs({ inputs, form }: { inputs: readonly Input[]; form: Form }) {
  return (
    <div className="grid items-start gap-3 sm:grid-cols-2">
      {inputs.map((input) =>
        input.kind === "model" ? (
          <ModelInput key={input.name} input={input} form={form} />
        ) : (
          <DatasetInput key={input.name} input={input} form={form} />
        ),
      )}
    </div>
  );
}

type Props = { input: Input; form: Form };

// nameIn returns the part of a reference that is the name, for the search for it.
function nameIn(ref: string): string | undefined {
  return ref.replace(/@.*$/, "").split("/").at(-1) || undefined;
}

function DatasetInput({ input, form }: Props) {
  const path = ["bindings", "datasets", input.name];
  const q = nameIn(textOf(form, path));
  const { data = [] } = useQuery({
    queryKey: ["datasets", "suggested", q],
    queryFn: ({ signal }) => call(api.GET("/api/datasets", { params: { query: { limit: most, q } }, signal })),
    placeholderData: (before) => before,
    staleTime: 15_000,
  });
  const refs = data.flatMap((d) => (d.latest_version ? [`ds/${d.project}/${d.name}@${d.latest_version}`] : []));
  return <RefField input={input} form={form} path={path} refs={refs} example="ds/default/questions@v1" />;
}

function ModelInput({ input, form }: Props) {
  const path = ["bindings", "model"];
  const q = nameIn(textOf(form, path));
  const { data = [] } = useQuery({
    queryKey: ["models", "suggested", q],
    queryFn: ({ signal }) => call(api.GET("/api/models", { params: { query: { limit: most, q } }, signal })),
    placeholderData: (before) => before,
    staleTime: 15_000,
  });
  const refs = data.flatMap((m) => (m.latest_version ? [`mdl/${m.project}/${m.name}@${m.latest_version}`] : []));
  return <RefField input={input} form={form} path={path} refs={refs} example="mdl/default/chat@1" />;
}

function RefField({ input, form, path, refs, example }: Props & { path: string[]; refs: string[]; example: string }) {
  const { t } = useTranslation("submit");
  const list = useId();
  return (
    <div>
      <TextField
        form={form}
        path={path}
        label={t(input.required ? "input.required" : "input.optional", { name: input.name })}
        hint={input.description}
        placeholder={example}
        longest={256}
        list={list}
      />
      <datalist id={list}>
        {refs.map((ref) => (
          <option key={ref} value={ref} />
        ))}
      </datalist>
    </div>
  );
}
