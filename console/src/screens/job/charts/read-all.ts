// readAll reads a list whose length is not known: its first page, then three pages at the same time, then twice as many, until
// a page is not full or there are `most` rows.
export async function readAll<T>(
  read: (offset: number) => Promise<readonly T[]>,
  size: number,
  most: number,
): Promise<T[]> {
  const rows = [...(await read(0))];
  let full = rows.length === size;
  for (let together = 3; full && rows.length < most; together *= 2) {
    const offsets = Array.from({ length: together }, (_, at) => rows.length + at * size);
    const pages = await Promise.all(offsets.filter((offset) => offset < most).map(read));
    for (const page of pages) {
      if (full) rows.push(...page);
      full &&= page.length === size;
    }
  }
  return rows;
}
