import { useMemo } from "react";
import { visible } from "@/lib/untrusted";

// UntrustedText shows a text that a user, a job or a model wrote. Control and bidirectional characters are shown as
// escapes, and the text is cut after `longest` characters.
export function UntrustedText({
  text,
  longest = 500,
  className,
}: {
  text: string;
  longest?: number;
  className?: string;
}) {
  const shown = useMemo(() => visible(text, longest), [text, longest]);
  return (
    <bdi className={className} title={shown.cut ? undefined : shown.text}>
      {shown.text}
      {shown.cut ? "…" : null}
    </bdi>
  );
}
