import { SkeletonLines } from "@/ui/Skeleton";

export function Pending() {
  return <SkeletonLines lines={6} className="max-w-2xl p-6" />;
}
