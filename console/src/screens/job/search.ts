import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useMemo } from "react";

type Raw = Record<string, unknown>;

// useView returns the search parameters of a tab and a function that changes some of them. Tabs share the address of their
// screen, so each reads only its own parameters: validate drops the others.
export function useView<T extends Raw>(validate: (search: Raw) => T): [T, (change: Partial<T>) => void] {
  const raw: Raw = useSearch({ strict: false });
  const navigate = useNavigate();
  const view = useMemo(() => validate(raw), [validate, raw]);
  const change = useCallback(
    (next: Partial<T>) => {
      void navigate({ to: ".", search: ((before: Raw) => ({ ...before, ...next })) as never, replace: true });
    },
    [navigate],
  );
  return [view, change];
}
