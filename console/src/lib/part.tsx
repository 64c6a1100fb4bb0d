import { type ComponentType, type ReactNode, useEffect, useState } from "react";

// A Part is a component whose code and texts are loaded when they are needed.
export type Part<P> = {
  // load loads the part. A load that failed is repeated by the next call.
  load: () => Promise<ComponentType<P>>;
  // now returns the component, or null while it is not loaded.
  now: () => ComponentType<P> | null;
};

export function part<P>(read: () => Promise<ComponentType<P>>): Part<P> {
  let loaded: ComponentType<P> | null = null;
  let loading: Promise<ComponentType<P>> | null = null;
  const load = async () => {
    loading ??= read();
    try {
      loaded = await loading;
      return loaded;
    } finally {
      loading = null;
    }
  };
  return { load, now: () => loaded };
}

type Props<P> = { part: Part<P>; props: P; fallback: ReactNode };

// PartOf shows a part as soon as it is loaded, and the fallback before. React's Suspense would show the fallback for at least
// 300 ms, even if the part is there after ten.
export function PartOf<P extends object>({ part, props, fallback }: Props<P>) {
  const [failed, setFailed] = useState<{ part: Part<P>; error: unknown } | null>(null);
  const [, setLoaded] = useState<Part<P> | null>(null);
  useEffect(() => {
    if (part.now()) return;
    let shown = true;
    part.load().then(
      () => shown && setLoaded(part),
      (error: unknown) => shown && setFailed({ part, error }),
    );
    return () => {
      shown = false;
    };
  }, [part]);
  // The error boundary of the page shows the error.
  if (failed?.part === part) throw failed.error;
  const Component = part.now();
  return Component ? <Component {...props} /> : fallback;
}
