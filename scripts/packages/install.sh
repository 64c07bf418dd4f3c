#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs poolshim @VERSION@ below a prefix, or removes it from there.
#
#     ./install [--prefix DIR]                   default: /usr/local
#     ./install --uninstall [--prefix DIR]
#
# Replaces no file that it has not installed: it then installs nothing. PREFIX/lib/poolshim/manifest
# lists the installed files.
set -eu

die() {
    echo "install: $*" >&2
    exit 1
}

usage() {
    echo "usage: ./install [--uninstall] [--prefix DIR]" >&2
    exit 2
}

prefix=/usr/local
action=install
while [ $# -gt 0 ]; do
    case $1 in
    --prefix)
        [ $# -gt 1 ] || usage
        prefix=$2
        shift
        ;;
    --prefix=*) prefix=${1#--prefix=} ;;
    --uninstall) action=uninstall ;;
    -h | --help)
        sed -n '3,9s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    *) usage ;;
    esac
    shift
done
case $prefix in
/*) ;;
'') usage ;;
*) prefix=$PWD/$prefix ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
list=$prefix/lib/poolshim/manifest

is_there() { [ -e "$1" ] || [ -h "$1" ]; }

# Removes the folders of a file, from the innermost, as long as they are empty and below poolshim's.
remove_folders() {
    folder=${1%/*}
    while :; do
        case $folder in
        */poolshim | */poolshim/*) ;;
        *) return 0 ;;
        esac
        [ "$prefix/$folder" != "$prefix" ] && rmdir "$prefix/$folder" 2>/dev/null || return 0
        folder=${folder%/*}
    done
}

# Removes every file that the list $1 has and the list $2 has not.
remove_files() {
    while IFS= read -r name; do
        case $name in
        *.py)
            module=${name##*/}
            rm -f "$prefix/${name%/*}/__pycache__/${module%.py}".*.pyc
            rmdir "$prefix/${name%/*}/__pycache__" 2>/dev/null || true
            ;;
        esac
        if ! grep -qxF -- "$name" "$2"; then
            rm -f "$prefix/$name"
            remove_folders "$name"
        fi
    done <"$1"
}

if [ "$action" = uninstall ]; then
    [ -f "$list" ] || die "$list is not there: nothing to remove below $prefix"
    copy=$(mktemp)
    trap 'rm -f "$copy"' EXIT
    cp "$list" "$copy"
    rm -f "$list"
    remove_files "$copy" /dev/null
    remove_folders lib/poolshim/manifest
    echo "poolshim is removed from $prefix"
    exit 0
fi

[ -f "$here/manifest" ] || die "$here/manifest is not there: run the script in the unpacked tarball"
known=/dev/null
[ ! -f "$list" ] || known=$list
while IFS= read -r name; do
    if is_there "$prefix/$name" && ! grep -qxF -- "$name" "$known"; then
        die "$prefix/$name is there already, and was not installed by this script"
    fi
done <"$here/manifest"
mkdir -p "$prefix" 2>/dev/null || die "cannot make $prefix"
[ -w "$prefix" ] || die "cannot write to $prefix: choose another --prefix, or become root"

[ ! -f "$list" ] || remove_files "$list" "$here/manifest"
mkdir -p "${list%/*}"
cp "$here/manifest" "$list" # first, so that an interrupted installation can be repeated or removed
# A library in use is replaced, not overwritten: programs continue with the one they have mapped.
while IFS= read -r name; do
    mkdir -p "$prefix/${name%/*}"
    new=$prefix/${name%/*}/.poolshim-new.$$
    cp -P "$here/files/$name" "$new"
    mv -f "$new" "$prefix/$name"
done <"$here/manifest"
echo "poolshim @VERSION@ is installed in $prefix"
echo "to try it: $prefix/bin/poolshim run -- PROGRAM"
echo "to remove it: $here/install --uninstall --prefix $prefix"
