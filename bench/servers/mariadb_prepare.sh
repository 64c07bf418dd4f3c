#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes a data folder of MariaDB with the tables of sysbench, which every run then copies.
#
#     mariadb_prepare.sh FOLDER ROWS
set -eu
folder=$1
rows=$2
user=$(id -un)

mariadb-install-db --no-defaults --user="$user" --datadir="$folder/data" --skip-test-db \
    --innodb-log-file-size=16M --auth-root-authentication-method=normal >"$folder/install.log" 2>&1

# In a subshell, which it replaces: a signal to that one is the server's.
start() {
    exec mariadbd --no-defaults --user="$user" --datadir="$folder/data" --socket="$folder/sock" \
        --skip-networking --innodb-log-file-size=16M "$@"
}

echo 'CREATE DATABASE sbtest;' | start --bootstrap >"$folder/bootstrap.log" 2>&1
start --skip-grant-tables >"$folder/server.log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
left=600
until [ -S "$folder/sock" ]; do
    left=$((left - 1))
    if [ $left -eq 0 ] || ! kill -0 $server; then
        cat "$folder/server.log" >&2
        exit 1
    fi
    sleep 0.1
done
sysbench oltp_read_write --mysql-socket="$folder/sock" --mysql-user=root --tables=4 \
    --table-size="$rows" prepare >"$folder/prepare.log"
kill $server
wait $server || true
trap - EXIT
