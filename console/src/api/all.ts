const page = 200;
// The bound of `all` unless its caller gives another one.
export const mostRows = 2000;

// all reads a list from its first row, page by page, up to a bound. It is for lists whose rows are chosen from, such as
// versions.
export async function all<T>(read: (limit: number, offset: number) => Promise<T[]>, most = mostRows): Promise<T[]> {
  const rows: T[] = [];
  while (rows.length < most) {
    const next = await read(page, rows.length);
    rows.push(...next);
    if (next.length < page) break;
  }
  return rows;
}
