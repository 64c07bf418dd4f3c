#!/bin/sh
# SPDX-License-Identifier: MIT
# PostgreSQL in a folder, on a Unix socket there. It refuses to run as root, and is then run as the
# user of its package; settings of the environment remain.
#
#     postgres.sh make FOLDER      makes the data folder FOLDER/data
#     postgres.sh serve FOLDER     runs the server in the foreground
set -eu
task=$1
folder=$2
for bin in /usr/lib/postgresql/*/bin; do
    PATH=$bin:$PATH
done
as=
if [ "$(id -u)" = 0 ]; then
    as="setpriv --reuid=postgres --regid=postgres --clear-groups --"
fi
case $task in
make)
    made=$(mktemp -d)
    trap 'rm -rf "$made"' EXIT
    [ -z "$as" ] || chown postgres "$made"
    # shellcheck disable=SC2086
    (cd / && $as initdb --no-sync -A trust -U bench "$made/data" >/dev/null)
    mv "$made/data" "$folder/data"
    ;;
serve)
    [ -z "$as" ] || chown postgres "$folder"
    # shellcheck disable=SC2086
    exec $as postgres -D "$folder/data" -k "$folder" -h '' -c fsync=off -c shared_buffers=16MB \
        -c max_connections=40 -c work_mem=16MB -c jit=off -c max_parallel_workers_per_gather=0 \
        -c autovacuum=off
    ;;
*)
    echo "postgres.sh: no task $task" >&2
    exit 2
    ;;
esac
