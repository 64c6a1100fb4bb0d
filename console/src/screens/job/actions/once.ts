import { useState } from "react";

// useOnceKey returns a key for Idempotency-Key that stays the same while the component is mounted, so that a repetition of
// a request after a lost response creates nothing twice. randomUUID would need https.
export function useOnceKey(): [string, () => void] {
  const [key, setKey] = useState(fresh);
  return [key, () => setKey(fresh())];
}

function fresh(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
