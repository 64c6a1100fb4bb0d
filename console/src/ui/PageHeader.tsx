import type { ReactNode } from "react";
import { useTitle } from "@/lib/title";

type Props = {
  // name is the title of the document and the heading of the page.
  name: string;
  // lead stands beside the heading, such as a state.
  lead?: ReactNode;
  // actions are at most one primary button and the quiet ones.
  actions?: ReactNode;
  children?: ReactNode;
};

export function PageHeader({ name, lead, actions, children }: Props) {
  useTitle(name);
  return (
    <header className="grid gap-2 px-4 pt-4 pb-3 md:px-6">
      <div className="flex min-h-8 flex-wrap items-center gap-x-3 gap-y-2">
        <h1 className="min-w-0 text-xl font-semibold tracking-tight [overflow-wrap:anywhere]">{name}</h1>
        {lead}
        <div className="ml-auto flex flex-wrap items-center gap-2">{actions}</div>
      </div>
      {children}
    </header>
  );
}
