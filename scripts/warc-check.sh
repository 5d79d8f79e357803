#!/usr/bin/env bash
# Checks a job's WARC files with warcio, and its index against them.
#
#   scripts/warc-check.sh JOB
#
# warcio is fetched into target/venv once. Exit code 0 when every record is sound, every line of the
# index leads to its record, and every response record has its line; 1 otherwise.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
venv=${CARGO_TARGET_DIR:-$(dirname -- "$here")/target}/venv

die() {
    printf 'warc-check.sh: %s\n' "$*" >&2
    exit 1
}

[[ $# -eq 1 && $1 != -* ]] || die "usage: scripts/warc-check.sh JOB"
job=$1
[[ -d $job/warc ]] || die "$job has no folder warc: is it a job, crawled with storage.warc = true?"
command -v python3 >/dev/null || die "python3 is missing; on Debian and Ubuntu: sudo apt-get install python3"

if [[ ! -x $venv/bin/warcio ]]; then
    python3 -m venv "$venv" || die "python3 cannot make a virtual environment; on Debian and Ubuntu: sudo apt-get install python3-venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check warcio || die "warcio could not be fetched by pip"
fi

verdict=0
shopt -s nullglob
files=("$job"/warc/*.warc.gz "$job"/warc/*.warc)
[[ ${#files[@]} -gt 0 ]] || die "$job/warc has no finished WARC file"
for open in "$job"/warc/*.open; do
    printf '%s is being written, or was when its crawl stopped: it is left out\n' "$open" >&2
done

for file in "${files[@]}"; do
    # What it prints of a broken record may be any bytes.
    if said=$("$venv/bin/warcio" check "$file" 2>&1 | tr -cd '[:print:]\n'); then
        printf 'warcio check: sound   %s\n' "$file"
    else
        printf 'warcio check: WRONG   %s\n' "$file"
        sed -n '1,20p' <<<"$said"
        verdict=1
    fi
done

"$venv/bin/python" "$here/cdxj_resolve.py" "$job" || verdict=1
exit "$verdict"
