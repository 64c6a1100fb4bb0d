import { useRef } from "react";

// useSame returns the list of the previous render if it has the same elements, so that what is computed from the results of
// several queries is computed only when one of them changes.
export function useSame(values: readonly unknown[]): readonly unknown[] {
  const before = useRef(values);
  const equal = before.current.length === values.length && before.current.every((value, at) => value === values[at]);
  if (!equal) before.current = values;
  return before.current;
}
