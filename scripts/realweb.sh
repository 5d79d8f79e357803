#!/usr/bin/env bash
# Crawls Debian's documentation packages served by nginx on loopback, and judges the crawl by nginx's
# log against an independent walk of the same sites.
#
#   scripts/realweb.sh [--keep] [--set section.key=value]…
#
#   --keep   keeps the job and the log of a right crawl too; those of a wrong one always stay
#   --set    is handed to argiope
#
# Exit code 0 when the crawl was right, 1 when not. Needs nginx, Python 3, and some 100 MB of packages
# that are fetched once. REALWEB_PORT (8480) chooses the port, ARGIOPE a program built already.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=realweb-lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/realweb-lib.sh"

keep=no
settings=()
while [[ $# -gt 0 ]]; do
    case $1 in
        --keep) keep=yes ;;
        --set)
            [[ $# -ge 2 ]] || die "--set wants section.key=value"
            settings+=(--set "$2")
            shift
            ;;
        --set=*) settings+=("$1") ;;
        -h | --help)
            sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
            exit 0
            ;;
        *) die "unknown argument $1; see --help" ;;
    esac
    shift
done

need python3 python3
lock_realweb
prepare_sites
build_argiope
# shellcheck disable=SC2119 # no command stands before nginx here
start_nginx

say "walking the sites (minutes the first time)"
python3 "$SCRIPTS/linkwalk.py" --sites "$REALWEB/sites.tsv" --out "$REALWEB/walk.json"

# What the walk left in the log is none of the crawl's.
flush_log
: >"$REALWEB/nginx/access.log"

job=$REALWEB/jobs/$(date +%Y%m%dT%H%M%S)
crawl_arguments "$job"
say "crawling into $job"
began=$EPOCHREALTIME
code=0
"$ARGIOPE" "${CRAWL[@]}" "${settings[@]}" || code=$?
seconds=$(awk -v began="$began" -v ended="$EPOCHREALTIME" 'BEGIN { printf "%.1f", ended - began }')
stop_nginx

verdict=0
[[ -d $job ]] || die "argiope ended with exit code $code and left no job"
cp -- "$REALWEB/nginx/access.log" "$job/access.log"
python3 "$SCRIPTS/judge.py" --log "$job/access.log" --walk "$REALWEB/walk.json" --json "$job/judgement.json" || verdict=1
printf 'argiope: exit code %s after %s s\n' "$code" "$seconds"
[[ $code -eq 0 ]] || verdict=1

if [[ $verdict -eq 0 && $keep == no ]]; then
    rm -rf -- "$job"
else
    printf 'job: %s\n' "$job"
fi
exit "$verdict"
