import { type InfiniteData, type QueryKey, useInfiniteQuery } from "@tanstack/react-query";
import { useMemo } from "react";

// The rows of one page, and where the next one begins. A list has no total, so a page requests one row more than it
// shows: if that row exists, there are more.
export type Page<T, C> = { rows: T[]; next: C | null };

export type PageQuery = { limit: number; offset?: number; after?: string };

// byOffset cuts a page out of a response to limit = size + 1.
export function byOffset<T>(rows: T[], size: number, offset: number): Page<T, number> {
  return { rows: rows.slice(0, size), next: rows.length > size ? offset + size : null };
}

// byKey does the same for a list, newest first, that continues after the position of its last row.
export function byKey<T extends { id: string; created_at: string }>(rows: T[], size: number): Page<T, string> {
  const shown = rows.slice(0, size);
  const last = shown.at(-1);
  return { rows: shown, next: rows.length > size && last ? `${last.created_at}~${last.id}` : null };
}

// byId does the same for a list that continues after the id of its last row.
export function byId<T extends { id: string }>(rows: T[], size: number): Page<T, string> {
  const shown = rows.slice(0, size);
  return { rows: shown, next: rows.length > size ? (shown.at(-1)?.id ?? null) : null };
}

export type Pages<T> = {
  rows: T[];
  pending: boolean;
  error: Error | null;
  more: boolean;
  loadMore: () => void;
  loadingMore: boolean;
  refetch: () => void;
};

// usePages reads a list page by page. fetchPage gets the row limit to request, which is one more than size:
//
//   usePages(["models"], 50, 0, async (limit, offset, signal) =>
//     byOffset(await call(api.GET("/api/models", { params: { query: { limit, offset } }, signal })), 50, offset));
export function usePages<T, C>(
  key: QueryKey,
  size: number,
  first: C,
  fetchPage: (limit: number, cursor: C, signal: AbortSignal) => Promise<Page<T, C>>,
  options: { refetchInterval?: number; enabled?: boolean } = {},
): Pages<T> {
  const query = useInfiniteQuery<Page<T, C>, Error, InfiniteData<Page<T, C>, C>, QueryKey, C>({
    queryKey: key,
    initialPageParam: first,
    queryFn: ({ pageParam, signal }) => fetchPage(size + 1, pageParam as C, signal),
    getNextPageParam: (last) => last.next,
    ...options,
  });
  const rows = useMemo(() => query.data?.pages.flatMap((page) => page.rows) ?? [], [query.data]);
  return {
    rows,
    pending: query.isPending,
    error: query.error,
    more: query.hasNextPage,
    loadMore: () => void query.fetchNextPage(),
    loadingMore: query.isFetchingNextPage,
    refetch: () => void query.refetch(),
  };
}
