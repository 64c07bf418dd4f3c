# SPDX-License-Identifier: MIT
# A small repository from its first commit to gc and clone; all names and dates are fixed.
set -e
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=C
export GIT_COMMITTER_EMAIL=c@example.org GIT_CONFIG_NOSYSTEM=1
git init -q -b trunk repo
cd repo
for i in $(seq 20); do
    export GIT_AUTHOR_DATE="2024-01-01T00:00:$((i + 10)) +0000"
    export GIT_COMMITTER_DATE=$GIT_AUTHOR_DATE
    seq $((i * 300)) > numbers
    mkdir -p "folder$((i % 5))"
    seq -f "line %g of $i" 400 > "folder$((i % 5))/file$i"
    git add -A
    git commit -q -m "change $i"
    if [ "$i" = 10 ]; then git branch side; fi
done
git log --stat --no-color | cat
git checkout -q side
seq 500 | sed 's/7/seven/' > other
git add other
git commit -q -m "on the side"
git merge -q --no-edit trunk
git diff --no-color trunk | git hash-object --stdin
git blame -s numbers | tail -3
git gc -q --aggressive
git fsck --strict 2>/dev/null
git clone -q . ../copy
git -C ../copy log --oneline | wc -l
git rev-parse HEAD
