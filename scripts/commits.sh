#!/usr/bin/env bash
# Checks that the subject of each commit since the day on which this check was added is "area: what changes", in at most
# 72 characters. Merges are exempt. CONTRIBUTING.md has the rules.
set -euo pipefail
cd "$(dirname "$0")/.."
since='2026-11-23 01:30 +0000'
wrong=0
while read -r commit; do
  subject=$(git show -s --format=%s "$commit")
  if ! [[ $subject =~ ^[a-z][a-z0-9/_.,\ -]*:\ [a-z\`] ]] || [ "${#subject}" -gt 72 ]; then
    echo "${commit:0:10}: the subject must be \"area: what changes\", at most 72 characters: $subject" >&2
    wrong=1
  fi
done < <(git rev-list --no-merges --since="$since" HEAD)
exit "$wrong"
