# Runs a server for as long as somebody holds the other end of this script's standard input: a test
# that was killed cannot stop its servers, but the kernel closes what it held.
#
#   watchdog.sh FOLDER LOG "SOCKETS" PROGRAM ARGUMENT...
#
# The folder and the sockets are removed when the server was stopped, not when it ended by itself:
# then its log is of interest.
folder=$1
log=$2
sockets=$3
shift 3
exec 3<&0
"$@" 3<&- </dev/null >"$log" 2>&1 &
server=$!
( read -r nothing; kill -KILL "$server" ) <&3 3<&- >/dev/null 2>&1 &
watcher=$!
exec 3<&- </dev/null
wait "$server"
status=$?
kill "$watcher" 2>/dev/null
if [ "$status" = 137 ]; then
    # Unquoted: there may be several.
    rm -rf "$folder" $sockets
fi
exit "$status"
