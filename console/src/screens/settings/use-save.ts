import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, call, type Schemas } from "@/api/client";
import { type ApiError, toApiError } from "@/api/error";

// useSave changes the profile and keeps the error of the last try.
export function useSave() {
  const queries = useQueryClient();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const save = async (body: Schemas["UpdateProfileRequest"]): Promise<boolean> => {
    setBusy(true);
    setError(null);
    try {
      queries.setQueryData(["profile"], await call(api.PATCH("/api/profile", { body })));
      return true;
    } catch (thrown) {
      setError(toApiError(thrown));
      return false;
    } finally {
      setBusy(false);
    }
  };
  return { save, busy, error };
}
