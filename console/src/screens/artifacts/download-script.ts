// downloadScript downloads all files of a run into a folder with its id. Links that have expired meanwhile are not used,
// because each page is requested when the one before it is stored. It needs bash, curl and jq.
export function downloadScript(origin: string, run: string): string {
  return `{
BASE=${origin} RUN=${run} AFTER=
while PAGE=$(curl -sSf "$BASE/api/runs/$RUN/download?limit=100&after=$AFTER" -H "Authorization: Bearer $TOKEN") &&
  AFTER=$(jq -er '.[-1].artifact_id' <<< "$PAGE"); do
  jq -r --arg base "$BASE" '.[] | select(.url) | [.path, .sha256, (.url | if startswith("/") then $base + . else . end)] | @tsv' <<< "$PAGE" |
    while IFS=$'\\t' read -r path sum url; do
      mkdir -p "$RUN/$(dirname "$path")"
      curl -sSfL -o "$RUN/$path" "$url" && echo "$sum  $RUN/$path" | sha256sum -c
    done
done
}`;
}
