# `. scripts/tools/lock.sh NAME` waits until no other script installs the tool NAME, and holds the lock
# until the calling script ends. The caller checks whether the tool is installed, takes the lock, and then
# checks again.
mkdir -p .cache/lock
exec 9> ".cache/lock/$1"
flock 9
