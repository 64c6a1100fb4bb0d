import { useState } from "react";

const page = 200;

// useGrowing shows the first rows of a list that is read already, and more of them on request, for tables that draw all
// their rows.
export function useGrowing<T>(rows: readonly T[]): { shown: readonly T[]; more: boolean; loadMore: () => void } {
  const [most, setMost] = useState(page);
  return { shown: rows.slice(0, most), more: rows.length > most, loadMore: () => setMost(most + page) };
}
