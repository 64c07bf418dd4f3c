# SPDX-License-Identifier: MIT
# What shell scripts do: arrays, expansions, subshells, process substitution, traps, coprocesses.
set -e
declare -A count
for i in $(seq 5000); do
    key="key$((i * 7919 % 211))"
    count[$key]=$((${count[$key]:-0} + i))
done
for key in "${!count[@]}"; do echo "$key ${count[$key]}"; done | sort | head -50
text=
for i in $(seq 2000); do text+="part $i,"; done
echo "length: ${#text} ${text//part/p} " | cksum
IFS=, read -ra parts <<<"$text"
echo "parts: ${#parts[@]}"
echo "substitution: $(paste <(seq 5000) <(seq 5000 -1 1) | wc -l)"
for i in $(seq 30); do (x=$(echo "$i" | sed 's/1/one/'); echo "$x" >/dev/null) & done
wait
trap 'echo trapped' EXIT
function recurse { if [ "$1" -gt 0 ]; then recurse $(($1 - 1)); else echo bottom; fi; }
recurse 300
printf '%s\n' {a..z}{0..9} | sort -r | head -3
