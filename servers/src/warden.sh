# Kills the processes that its parent leaves behind, and removes the parent's folders: its arguments.
# Each line of input is `watch PID` or `forget PID`. The input ends when the parent has ended.
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
# A killed process may still write for a moment.
rm -rf -- "$@" || { sleep 1; rm -rf -- "$@"; }
