import { useState } from "react";
import { useTranslation } from "react-i18next";
import { UntrustedText } from "@/ui";

// The most members of an object or a list that are shown at once.
const most = 200;

// Json shows a value as it is, as a tree that opens level by level. What is closed is not in the page.
export function Json({ label, value, open = false }: { label: string; value: unknown; open?: boolean }) {
  return (
    <section className="rounded-lg border bg-sunken px-3 py-1.5 font-mono text-xs">
      <Node name={label} value={value} open={open} />
    </section>
  );
}

function Node({ name, value, open = false }: { name: string; value: unknown; open?: boolean }) {
  const { t } = useTranslation("samples");
  const [shown, setShown] = useState(open);
  const [count, setCount] = useState(most);
  if (typeof value !== "object" || value === null)
    return (
      <div className="py-0.5 break-words whitespace-pre-wrap">
        <span className="text-soft">
          <UntrustedText text={name} longest={200} />
          {": "}
        </span>
        <UntrustedText text={JSON.stringify(value) ?? ""} longest={10_000} />
      </div>
    );
  const entries = Object.entries(value);
  const size = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  return (
    <details open={shown} onToggle={(event) => setShown(event.currentTarget.open)}>
      <summary className="w-fit cursor-pointer py-0.5 hover:text-accent">
        <UntrustedText text={name} longest={200} /> <span className="text-soft">{size}</span>
      </summary>
      {shown ? (
        <div className="border-l pl-4">
          {entries.slice(0, count).map(([key, member]) => (
            <Node key={key} name={key} value={member} />
          ))}
          {entries.length > count ? (
            <button type="button" className="py-1 text-accent" onClick={() => setCount(count + most)}>
              {t("moreMembers", { count: entries.length - count })}
            </button>
          ) : null}
        </div>
      ) : null}
    </details>
  );
}
