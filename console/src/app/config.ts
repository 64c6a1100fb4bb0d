import { useQuery } from "@tanstack/react-query";
import { api, call } from "@/api/client";

// useInstallation reads the name of the installation and the admins' notices.
export function useInstallation() {
  return useQuery({
    queryKey: ["installation"],
    queryFn: ({ signal }) => call(api.GET("/api/auth/config", { signal })),
    staleTime: 60_000,
    // The end of a maintenance is noticed soon.
    refetchInterval: (query) => (query.state.data?.maintenance ? 5_000 : 60_000),
  });
}
