import { ErrorPanel, PageHeader, SkeletonLines } from "@/ui";

type Props = { id: string; error: Error | null; onRetry: () => void };

// Pending stands for a job or a run that is being read, or could not be.
export function Pending({ id, error, onRetry }: Props) {
  return (
    <>
      <PageHeader name={id} />
      {error ? <ErrorPanel error={error} onRetry={onRetry} /> : <SkeletonLines lines={6} className="px-4 md:px-6" />}
    </>
  );
}
