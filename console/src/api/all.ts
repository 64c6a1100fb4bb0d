const page = 200;

// all reads a list from its first row, page by page, up to a bound. It is for lists whose rows are chosen from, such as
// versions.
export async function all<T>(read: (limit: number, offset: number) => Promise<T[]>, most = 2000): Promise<T[]> {
  const rows: T[] = [];
  while (rows.length < most) {
    const next = await read(page, rows.length);
    rows.push(...next);
    if (next.length < page) break;
  }
  return rows;
}
