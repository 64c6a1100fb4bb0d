import { Link } from "@tanstack/react-router";
import icon from "@/theme/icon.svg";
import { useInstallation } from "./config";

export function Brand({ compact = false }: { compact?: boolean }) {
  const { data } = useInstallation();
  const name = data?.installation || "Signalbox";
  return (
    <Link to="/" className="flex min-w-0 items-center gap-2 rounded-md font-semibold tracking-tight" aria-label={name}>
      <img src={icon} alt="" width="20" height="20" className="shrink-0" />
      {compact ? null : <span className="truncate text-base">{name}</span>}
    </Link>
  );
}
