// What a user chose for the charts of a project, in this browser.
export function read<T>(name: string, parse: (value: unknown) => T): T {
  try {
    return parse(JSON.parse(localStorage.getItem(`signalbox.${name}`) ?? "null"));
  } catch {
    return parse(null);
  }
}

export function write(name: string, value: unknown): void {
  try {
    localStorage.setItem(`signalbox.${name}`, JSON.stringify(value));
  } catch {
    // Without storage the choice lasts until the page is closed.
  }
}
