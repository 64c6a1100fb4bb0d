// download saves a file that the page made.
export function download(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  link.download = safeName(name);
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

// safeName makes a file name of a text that users chose, such as the key of a metric.
export function safeName(name: string): string {
  return (
    name
      .replaceAll(/[^\p{L}\p{N}._-]+/gu, "-")
      .replaceAll(/^[.-]+/g, "")
      .slice(0, 120) || "file"
  );
}
