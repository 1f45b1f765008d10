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
    # Its children, too: the frozen ones would stay. The words are pids.
    # shellcheck disable=SC2046
    kill -KILL "$pid" $(cat "/proc/$pid/task/$pid/children")
done
# The system would keep the shared memory of a killed PostgreSQL for ever. Its id is in this file.
for folder; do
    for file in "$folder"/*/data/postmaster.pid; do
        ipcrm -m "$(awk 'NR == 7 { print $2 }' "$file")"
    done
done
# A killed process may still write for a moment.
rm -rf -- "$@" || { sleep 1; rm -rf -- "$@"; }
