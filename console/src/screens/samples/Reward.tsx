import { Badge, Num } from "@/ui";
import type { Sample } from "./api";

// Reward is a neutral chip: what a good reward is, only the training knows.
export function Reward({ value }: { value: Sample["reward"] }) {
  return (
    <Badge tone={typeof value === "string" ? "warn" : "neutral"} className="justify-self-end tabular">
      <Num value={value} digits={3} />
    </Badge>
  );
}
