# Sourced: `. scripts/tools/lock.sh NAME` waits until no other caller installs the part NAME, and keeps others waiting
# until this script ends. A caller looks first whether the part is there, then locks, then looks again.
mkdir -p .cache/lock
exec 9> ".cache/lock/$1"
flock 9
