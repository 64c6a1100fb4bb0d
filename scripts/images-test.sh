#!/usr/bin/env bash
# Loads the images of `make images` into podman without a network and runs each program in its image: with --version,
# and a gateway with certificates of signalbox-setup and a health check. The script needs root, podman and runc, and uses a
# store of its own, which it removes.
set -euo pipefail
cd "$(dirname "$0")/.."
images=$PWD/dist/images
for program in podman runc; do
  command -v $program > /dev/null || { echo "$program is missing (apt-get install --no-install-recommends podman runc)" >&2; exit 1; }
done
dir=$(mktemp -d)
# vfs needs no file system of its own kind, and cgroupfs no systemd.
pod() { podman --root "$dir/store" --runroot "$dir/run" --storage-driver vfs --runtime runc --cgroup-manager cgroupfs --events-backend file "$@"; }
clean() { pod rm --all --force > /dev/null 2>&1 || true; pod volume rm --all > /dev/null 2>&1 || true; rm -rf "$dir"; }
trap clean EXIT
# The limits of this machine may be below those that podman requests.
limits=(--ulimit nofile=1024:1024 --ulimit nproc=1024:1024)
locked=(--network none --read-only --cap-drop all --security-opt no-new-privileges --tmpfs /tmp "${limits[@]}")

declare -A loaded
for archive in "$images"/*.tar; do
  name=$(basename "$archive" .tar)
  out=$(pod load --quiet --input "$archive")
  loaded[$name]=${out##*Loaded image: }
  echo "${loaded[$name]}"
done
for name in "${!loaded[@]}"; do
  if [ "$name" = signalbox-setup ]; then continue; fi
  echo "$name --version: $(pod run --rm "${locked[@]}" "${loaded[$name]}" --version)"
done
if pod run --rm "${locked[@]}" --entrypoint /bin/sh "${loaded[authd]}" -c true 2> /dev/null; then
  echo "the image of authd contains a shell" >&2
  exit 1
fi
pod run --rm "${locked[@]}" --user 0:0 --cap-add chown,dac_override,fowner --volume config:/etc/signalbox \
  "${loaded[signalbox-setup]}" certs --dir /etc/signalbox --group signalbox
pod run --rm "${locked[@]}" --user 0:0 --cap-add chown,dac_override,fowner --volume config:/etc/signalbox \
  "${loaded[signalbox-setup]}" secrets --dir /etc/signalbox --group signalbox
pod run --detach --name gateway "${locked[@]}" --user 65532:65606 --group-add 65532 --env-file deploy/env/common.env --env-file deploy/env/gateway.env \
  --env SERVICE_ADMIN_LISTEN=127.0.0.1:7100 --volume config:/etc/signalbox:ro --volume objects:/var/lib/signalbox/objects "${loaded[gatewayd]}" > /dev/null
for _ in {1..100}; do
  if health=$(pod exec gateway /usr/bin/gatewayd healthcheck 2>&1); then break; fi
  sleep 0.2
done
echo "gatewayd healthcheck: $health"
pod logs gateway 2>&1 | tail -n 2
pod exec gateway /usr/bin/gatewayd healthcheck > /dev/null
pod stop --time 20 gateway > /dev/null
if [ "$(pod inspect --format '{{.State.ExitCode}}' gateway)" != 0 ]; then
  echo "the gateway did not stop by itself" >&2
  exit 1
fi
