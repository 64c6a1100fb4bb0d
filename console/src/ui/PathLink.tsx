import { useRouter } from "@tanstack/react-router";
import type { ReactNode } from "react";

// PathLink links to a screen by its address, for areas that do not import one another.
export function PathLink({ href, className, children }: { href: string; className?: string; children: ReactNode }) {
  const router = useRouter();
  return (
    <a
      href={href}
      className={className ?? "hover:underline"}
      onClick={(event) => {
        if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        router.history.push(href);
      }}
    >
      {children}
    </a>
  );
}
