import type { Difference } from "@/lib/flatten";
import { Nothing } from "./Time";
import { UntrustedText } from "./UntrustedText";

type Props = { rows: readonly Difference[]; name: string; before: string; after: string };

// DiffTable shows the differences of two documents side by side. name, before and after are its column headings.
export function DiffTable({ rows, name, before, after }: Props) {
  return (
    <div className="scroll-thin overflow-x-auto rounded-lg border bg-card">
      <table className="w-full table-fixed text-left text-xs">
        <thead className="bg-sunken text-soft">
          <tr>
            <th className="w-2/6 px-3 py-1.5 font-medium">{name}</th>
            <th className="w-2/6 px-3 py-1.5 font-medium">{before}</th>
            <th className="w-2/6 px-3 py-1.5 font-medium">{after}</th>
          </tr>
        </thead>
        <tbody className="divide-y divide-line/60">
          {rows.map((row) => (
            <tr key={row.path} className="align-top">
              <th scope="row" className="px-3 py-1.5 font-mono font-normal break-words">
                <UntrustedText text={row.path} longest={300} />
              </th>
              <Side text={row.before} className="text-bad" />
              <Side text={row.after} className="text-accent" />
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Side({ text, className }: { text: string | null; className: string }) {
  return (
    <td className={`px-3 py-1.5 break-words whitespace-pre-wrap ${className}`}>
      {text === null ? <Nothing /> : <UntrustedText text={text} longest={4000} />}
    </td>
  );
}
