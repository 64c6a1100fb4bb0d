import { get } from "./read";

type Picker = (options: { suggestedName: string }) => Promise<{ createWritable: () => Promise<WritableStream> }>;

// save stores the body of a response as a file. Where the browser can, the body goes to the disk piece by piece; elsewhere
// it is in memory for a moment. It does nothing if the user closes the browser's dialog.
export async function save(path: string, query: Parameters<typeof get>[1], name: string): Promise<void> {
  const pick = (globalThis as { showSaveFilePicker?: Picker }).showSaveFilePicker;
  if (pick) {
    let file: WritableStream;
    try {
      file = await (await pick({ suggestedName: name })).createWritable();
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") return;
      throw error;
    }
    const abort = async (error: unknown) => {
      await file.abort(error).catch(() => undefined);
      throw error;
    };
    const response = await get(path, query).catch(abort);
    await (response?.body ?? new Blob([]).stream()).pipeTo(file);
    return;
  }
  keep(URL.createObjectURL(await (await get(path, query)).blob()), name);
}

// keep lets the browser download an address that needs no token.
export function keep(url: string, name: string): void {
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  if (url.startsWith("blob:")) setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
