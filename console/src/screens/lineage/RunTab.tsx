import { LineageTab } from "./LineageTab";

// RunTab is the lineage of a run, as a tab of the run and of its job.
export function RunTab({ runId }: { runId: string }) {
  return (
    <div className="scroll-thin min-h-0 flex-1 overflow-auto">
      <LineageTab of={{ kind: "run", id: runId }} className="max-w-[96rem] px-4 py-4 md:px-6" />
    </div>
  );
}
