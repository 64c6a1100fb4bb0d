import { renderHook } from "@testing-library/react";
import { expect, test } from "vitest";
import { useAuditColumns } from "@/screens/admin/audit-columns";
import { useUserColumns } from "@/screens/admin/user-columns";
import { useArtifactColumns } from "@/screens/artifacts/columns";
import { useDeploymentColumns } from "@/screens/deployments/columns";
import { useJobColumns } from "@/screens/jobs/columns";
import { useRunColumns } from "@/screens/runs/columns";
import { useShareColumns } from "@/screens/shares/share-columns";
import type { Column } from "./columns";

// What a table has in a window of 1280 pixels, in rem: 1072 pixels beside the navigation, less its padding and a scrollbar.
const room = (1072 - 24 - 12) / 16;
const boxes = 2.25;
const menu = 2.5;

type Any = Pick<Column<never>, "width" | "optional">;

// least is the width that the columns have at least, in rem.
const least = (columns: readonly Any[]) =>
  columns
    .filter((column) => !column.optional)
    .reduce((sum, column) => sum + Number(/([\d.]+)rem/.exec(column.width ?? "6rem")?.[1]), 0);

test.each<[string, () => readonly Any[], number]>([
  ["jobs", useJobColumns, boxes + menu],
  ["runs", useRunColumns, boxes],
  ["artifacts", useArtifactColumns, menu],
  ["deployments", useDeploymentColumns, 0],
  ["shares", useShareColumns, 5.5],
  ["audit", useAuditColumns, 0],
  ["users", () => useUserColumns(undefined), menu],
])("the columns of %s that are shown at first fit into a window of 1280 pixels", (_, hook, beside) => {
  const { result } = renderHook(hook);
  expect(least(result.current) + beside).toBeLessThanOrEqual(room);
});
