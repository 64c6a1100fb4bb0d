#!/bin/sh
# A fake signalboxd for the demo's tests. $data/mode selects its behavior.
# Arguments: --data DIR --listen ADDR --ready-file PATH
# Or, for a sign-in link: link --data DIR --next PATH
if [ "$1" = link ]; then
	[ "$(cat "$3/mode")" = serves ] || exit 1
	echo "$(cat "$3/address")/login?next=$5#link=lnk_demo"
	exit
fi
data=$2 ready=$6
mode=$(cat "$data/mode")
echo "mode $mode, password file $SERVICE_BOOTSTRAP_ADMIN_PASSWORD_FILE"
case $mode in
fails) echo "signalboxd: the address $4 is in use by another process; choose another with --listen" >&2; exit 3 ;;
rubbish) echo "not json" >"$ready" ;;
mute) ;;
*) printf '{"address":"%s","pid":%d}' "$(cat "$data/address")" $$ >"$ready.new" && mv "$ready.new" "$ready" ;;
esac
case $mode in
obstinate)
	trap '' INT TERM
	sleep 600 &
	echo $! >"$data/child"
	;;
*) trap 'echo ended in order; exit 0' INT ;;
esac
touch "$data/trapped"
while [ ! -e "$data/crash" ]; do sleep 0.02; done
echo "panic: out of memory"
exit 2
