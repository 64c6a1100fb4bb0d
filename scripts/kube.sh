#!/usr/bin/env bash
# Starts a real API server of Kubernetes with etcd, and runs the tests of the Helm chart that need one: every object of
# every set of values is applied with strict validation, and the setup job's program creates Secrets with the rights of
# the chart's role.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$(scripts/tools/kube.sh)
work=$(mktemp -d)
clean() {
  # Without etcd, the API server would take minutes to stop.
  kill -KILL "${server:-}" "${etcd:-}" 2> /dev/null || true
  wait 2> /dev/null || true
  rm -rf "$work"
}
trap clean EXIT
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
client=$(port) peer=$(port) secure=$(port)
"$bin/etcd" --data-dir "$work/etcd" --listen-client-urls "http://127.0.0.1:$client" --advertise-client-urls "http://127.0.0.1:$client" \
  --listen-peer-urls "http://127.0.0.1:$peer" --log-level error > "$work/etcd.log" 2>&1 &
etcd=$!
openssl genrsa -out "$work/account.key" 2048 2> /dev/null
token=$(openssl rand -hex 32)
echo "$token,admin,admin,system:masters" > "$work/tokens"
"$bin/kube-apiserver" --etcd-servers "http://127.0.0.1:$client" --secure-port "$secure" --bind-address 127.0.0.1 --cert-dir "$work/certs" \
  --token-auth-file "$work/tokens" --authorization-mode RBAC --service-cluster-ip-range 10.96.0.0/16 --service-account-issuer https://kubernetes.default.svc \
  --service-account-key-file "$work/account.key" --service-account-signing-key-file "$work/account.key" > "$work/server.log" 2>&1 &
server=$!
for _ in {1..300}; do
  if curl -fsS --cacert "$work/certs/apiserver.crt" -H "Authorization: Bearer $token" "https://127.0.0.1:$secure/readyz" > /dev/null 2>&1; then break; fi
  if ! kill -0 "$server" 2> /dev/null; then tail -20 "$work/server.log" >&2; exit 1; fi
  sleep 0.2
done
export KUBE_PORT=$secure KUBE_TOKEN=$token KUBE_CA=$work/certs/apiserver.crt KUBE_SETUP=$PWD/bin/signalbox-setup
GOWORK=off go -C test/chart test -count=1 -v -tags kube -run TestKube .
