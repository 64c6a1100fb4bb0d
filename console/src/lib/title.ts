import { useEffect } from "react";

// useTitle sets the title of the document, which screen readers read after a change of the page.
export function useTitle(name: string): void {
  useEffect(() => {
    document.title = name === "" ? "Signalbox" : `${name} · Signalbox`;
  }, [name]);
}
