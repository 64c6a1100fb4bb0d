import { Link } from "@tanstack/react-router";
import { useModel } from "@/api/models";
import { UntrustedText } from "@/ui";

// ModelName links to a version of a model by the model's name. A model that the user may not see keeps its id.
export function ModelName({ id, version }: { id: string; version?: number }) {
  const { data } = useModel(id);
  const text = (
    <>
      <UntrustedText text={data?.name ?? id} longest={128} />
      {version !== undefined ? <span className="text-soft tabular"> v{version}</span> : null}
    </>
  );
  if (!data) return <span className="truncate">{text}</span>;
  return (
    <Link
      to="/models/$id/$version"
      params={{ id, version: version === undefined ? "latest" : String(version) }}
      className="truncate hover:underline"
    >
      {text}
    </Link>
  );
}
