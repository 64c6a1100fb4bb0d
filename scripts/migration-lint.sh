#!/usr/bin/env bash
# Reports statements of migrations that lock a table for long, or that break the replicas of the previous version,
# which still run while a migration is applied. Without arguments it checks the migrations of all services, except
# those of scripts/migration-baseline.txt: they are older than this check, and may have been applied already.
set -euo pipefail
cd "$(dirname "$0")/.."
squawk=$(scripts/tools/squawk.sh)
files=("$@")
if [ ${#files[@]} -eq 0 ]; then
  mapfile -t files < <(git ls-files -co --exclude-standard '*/migrations/*.sql' ':!:test' | grep -vxFf scripts/migration-baseline.txt || true)
fi
# squawk does not check these rules: they concern style, or timeouts that the migrator sets for each connection.
without=prefer-robust-stmts,prefer-bigint-over-int,prefer-text-field,prefer-identity,prefer-timestamp-tz
without+=,require-lock-timeout,require-statement-timeout
up=$(mktemp)
trap 'rm -f "$up"' EXIT
failed=0
for file in "${files[@]}"; do
  # Only the part before "+goose Down" is ever applied. A file is one transaction unless it has the mark NO TRANSACTION.
  sed '/^-- +goose Down/,$d' "$file" > "$up"
  transaction=(--assume-in-transaction)
  if grep -q '^-- +goose NO TRANSACTION' "$file"; then transaction=(); fi
  "$squawk" --no-error-on-unmatched-pattern --pg-version 17.0 --reporter gcc --exclude "$without" "${transaction[@]}" \
    --stdin-filepath "$file" < "$up" | awk -F: -v OFS=: '{$2 += 1; print}' || failed=1 # squawk counts lines from 0
  awk -v file="$file" -f scripts/migration-statements.awk "$up" || failed=1
done
if [ $failed -ne 0 ]; then
  echo "Change these statements as described in docs/contributing/storage.md." >&2
fi
exit $failed
