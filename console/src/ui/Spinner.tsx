import { LoaderCircle } from "lucide-react";

export function Spinner({ size = 14 }: { size?: number }) {
  return <LoaderCircle size={size} aria-hidden className="animate-spin motion-reduce:animate-none" />;
}
