# Kills what its starter has left behind, and removes the starter's folders: all that are named.
# An order is a line, `watch PID` or `forget PID`. The starter has ended when there is no line left.
trap '' HUP INT TERM
pids=' '
while read -r order pid; do
    case $order in
        watch) pids="$pids$pid " ;;
        forget) pids="${pids%% "$pid" *} ${pids#* "$pid" }" ;;
    esac
done
for pid in $pids; do
    kill -KILL "$pid"
done
# What was killed may need a moment until it writes no more.
rm -rf -- "$@" || { sleep 1; rm -rf -- "$@"; }
