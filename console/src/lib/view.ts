import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useMemo } from "react";

type Raw = Record<string, unknown>;

// useView returns the search parameters of a part of a page and a function that changes some of them. The tabs of a page
// share its address, so each one reads its own parameters and leaves the others as they are.
export function useView<T extends Raw>(validate: (search: Raw) => T): [T, (change: Partial<T>) => void] {
  const raw: Raw = useSearch({ strict: false });
  const navigate = useNavigate();
  const view = useMemo(() => validate(raw), [validate, raw]);
  const change = useCallback(
    (next: Partial<T>) => {
      const search = (before: Raw) => ({ ...before, ...next });
      void navigate({ to: ".", search: search as never, hash: true, replace: true, resetScroll: false });
    },
    [navigate],
  );
  return [view, change];
}
