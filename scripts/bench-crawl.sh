#!/usr/bin/env bash
# The speed of a whole crawl without pauses, on the sites of realweb.sh, beside wrk fetching the same
# URLs from the same nginx by as many connections.
#
#   scripts/bench-crawl.sh [--rounds N] [--profile] [--out DIR] [--set section.key=value]… [DATE]
#
#   DATE       names the folder of results, benches/runs/DATE-crawl; today by default
#   --rounds   how often each measurement is made, 3 by default; the table has their medians
#   --profile  records one crawl with perf as well: profile.txt has the 60 dearest functions
#   --out      another folder for the results
#   --set      is handed to argiope
#
# Writes raw.json and README.md. Needs nginx, wrk, GNU time, taskset, Python 3; perf for --profile.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=realweb-lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/realweb-lib.sh"

rounds=3
profile=no
out=
date=$(date +%F)
settings=()
while [[ $# -gt 0 ]]; do
    case $1 in
        --rounds | --out | --set)
            [[ $# -ge 2 ]] || die "$1 wants a value"
            case $1 in
                --rounds) rounds=$2 ;;
                --out) out=$2 ;;
                --set) settings+=(--set "$2") ;;
            esac
            shift
            ;;
        --profile) profile=yes ;;
        -h | --help)
            sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
            exit 0
            ;;
        -*) die "unknown argument $1; see --help" ;;
        *) date=$1 ;;
    esac
    shift
done
[[ $rounds =~ ^[1-9][0-9]*$ ]] || die "--rounds wants a number"
out=${out:-$REPOSITORY/benches/runs/$date-crawl}

need wrk wrk
need taskset util-linux
need python3 python3
[[ -x /usr/bin/time ]] || die "/usr/bin/time is missing; on Debian and Ubuntu: sudo apt-get install time"
[[ $profile == no ]] || need perf linux-perf
lock_realweb
prepare_sites
build_argiope

work=$REALWEB/bench
rm -rf -- "$work"
mkdir -p -- "$work" "$out"
runs=$work/runs.jsonl

# nginx_ticks: the clock ticks nginx's processes have used so far.
nginx_ticks() {
    local pid ticks=0 fields
    for pid in "$NGINX_PID" $(pgrep -P "$NGINX_PID"); do
        # Behind the name in parentheses, which may hold spaces: utime and stime are fields 14 and 15.
        read -r -a fields < <(sed 's/.*) //' "/proc/$pid/stat")
        ticks=$((ticks + fields[11] + fields[12]))
    done
    printf '%s\n' "$ticks"
}

# measured NAME PINNED COMMAND…: runs the command under GNU time; sets TIMES (seconds, user, sys, KiB)
# and NGINX_SECONDS.
measured() {
    local before after prefix=()
    [[ $1 == no ]] || prefix=(taskset -c 0)
    shift
    before=$(nginx_ticks)
    "${prefix[@]}" /usr/bin/time -q -o "$work/time" -f '%e %U %S %M' "$@" >"$work/output" 2>&1 || {
        cat -- "$work/output" >&2
        die "this failed: $*"
    }
    after=$(nginx_ticks)
    TIMES=$(tail -n 1 "$work/time")
    NGINX_SECONDS=$(awk -v ticks=$((after - before)) -v hz="$(getconf CLK_TCK)" 'BEGIN { printf "%.2f", ticks / hz }')
}

# record NAME PINNED ROUND PAGES SECONDS: one line of JSON.
record() {
    local wall user sys kib load
    read -r wall user sys kib <<<"$TIMES"
    read -r load _ </proc/loadavg
    printf '{"run": "%s", "pinned": %s, "round": %s, "pages": %s, "seconds": %s, "wall_seconds": %s, "user_seconds": %s, "system_seconds": %s, "peak_kib": %s, "nginx_cpu_seconds": %s, "load_average_after": %s}\n' \
        "$1" "$([[ $2 == yes ]] && echo true || echo false)" "$3" "$4" "$5" "$wall" "$user" "$sys" "$kib" "$NGINX_SECONDS" "$load" >>"$runs"
    say "$1, pinned: $2, round $3: $4 pages in $5 s"
}

# crawl NAME PINNED ROUND SETTING…: one crawl into a new folder, $work/job.
crawl() {
    local name=$1 pinned=$2 round=$3 pages
    shift 3
    rm -rf -- "$work/job"
    sync
    crawl_arguments "$work/job"
    measured "$pinned" "$ARGIOPE" "${CRAWL[@]}" "${settings[@]}" "$@"
    pages=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["pages"])' "$work/job/report.json")
    [[ $round == 0 ]] || record "$name" "$pinned" "$round" "$pages" "${TIMES%% *}"
}

# The load generator: a thread and a connection for each site, as the crawl has one connection for each
# host. Each thread goes once through its site's list, in the order the crawl took.
write_wrk_script() {
    cat >"$work/wrk.lua" <<'LUA'
local ffi = require("ffi")
ffi.cdef [[
typedef struct { long tv_sec; long tv_nsec; } bench_timespec;
int clock_gettime(int clock, bench_timespec *time);
int getpid(void);
int kill(int pid, int signal);
]]

local function now()
    local time = ffi.new("bench_timespec")
    ffi.C.clock_gettime(1, time)
    return tonumber(time.tv_sec) + tonumber(time.tv_nsec) / 1e9
end

local folder = os.getenv("BENCH_FOLDER")
local count = 0
local threads = {}

function setup(thread)
    count = count + 1
    local site = assert(io.open(folder .. "/wrk-" .. count)):read("*l")
    local host, port = site:match("^(.*):(%d+)$")
    thread.addr = wrk.lookup(host, port)[1]
    thread:set("number", count)
    table.insert(threads, thread)
end

function init()
    requests = {}
    local authority
    for line in io.lines(folder .. "/wrk-" .. number) do
        if authority == nil then
            authority = line
        else
            requests[#requests + 1] = wrk.format("GET", line, {["Host"] = authority, ["User-Agent"] = "wrk"})
        end
    end
    -- What is asked for last is not waited for, and not counted.
    beyond = wrk.format("GET", "/robots.txt", {["Host"] = authority, ["User-Agent"] = "wrk"})
    at = 0
    -- wrk asks its first thread for a request once to look at it, and does not send that one.
    looked_at = number ~= 1
    total = tonumber(os.getenv("BENCH_SITES"))
end

function request()
    if not looked_at then
        looked_at = true
        return beyond
    end
    at = at + 1
    if at == 1 then
        began = now()
    end
    if at <= #requests then
        return requests[at]
    end
    if at == #requests + 1 then
        ended = now()
        wrk.thread:stop()
        -- The last thread ends the program, which would sleep until its time is over.
        local done = io.open(folder .. "/wrk-done", "a")
        done:write("x")
        done:close()
        local size = io.open(folder .. "/wrk-done"):seek("end")
        if size >= total then
            ffi.C.kill(ffi.C.getpid(), 2)
        end
    end
    return beyond
end

function done(summary)
    local first, last = math.huge, 0
    for _, thread in ipairs(threads) do
        first = math.min(first, thread:get("began"))
        last = math.max(last, thread:get("ended"))
    end
    local errors = summary.errors
    local result = io.open(folder .. "/wrk-result", "w")
    result:write(string.format("%d %.3f %d\n", summary.requests, last - first,
        errors.connect + errors.read + errors.write + errors.timeout))
    result:close()
end
LUA
    # One list for each site: its authority, then the targets. The URLs are those the crawl had answers to.
    "$ARGIOPE" export --job "$work/job" --format jsonl --out "$work/pages.jsonl"
    python3 - "$work" <<'PYTHON'
import json
import sys

folder = sys.argv[1]
sites = {}
with open(folder + "/pages.jsonl", encoding="utf-8") as pages:
    for line in pages:
        authority, slash, target = json.loads(line)["url"][len("http://"):].partition("/")
        sites.setdefault(authority, []).append(slash + target)
for number, (authority, targets) in enumerate(sorted(sites.items()), 1):
    with open(f"{folder}/wrk-{number}", "w", encoding="utf-8") as out:
        out.write("\n".join([authority, *targets]) + "\n")
with open(folder + "/wrk-sites", "w", encoding="utf-8") as out:
    out.write(f"{len(sites)}\n")
PYTHON
}

# load NAME PINNED ROUND: one pass of wrk over the list.
load() {
    local sites answered seconds errors first
    read -r sites <"$work/wrk-sites"
    read -r first <"$work/wrk-1"
    rm -f -- "$work/wrk-done" "$work/wrk-result"
    export BENCH_FOLDER=$work BENCH_SITES=$sites
    measured "$2" wrk --threads "$sites" --connections "$sites" --duration 10m --timeout 30s \
        --script "$work/wrk.lua" "http://$first/"
    read -r answered seconds errors <"$work/wrk-result"
    [[ $errors -eq 0 ]] || die "wrk had $errors errors"
    [[ $3 == 0 ]] || record "$1" "$2" "$3" "$answered" "$seconds"
}

say "a first crawl, not counted, warms the disk's cache and gives the list of URLs"
# shellcheck disable=SC2119 # no command stands before nginx here
start_nginx
crawl warm-up no 0
write_wrk_script
load warm-up no 0
stop_nginx

pinnings=(no)
if taskset -c 0,1 true 2>/dev/null; then
    pinnings=(no yes)
else
    say "this machine has one core: nothing is pinned"
fi
for ((round = 1; round <= rounds; round++)); do
    for pinned in "${pinnings[@]}"; do
        if [[ $pinned == yes ]]; then
            start_nginx taskset -c 1
        else
            # shellcheck disable=SC2119
            start_nginx
        fi
        crawl "crawl, WARC" "$pinned" "$round" --set storage.warc=true
        crawl "crawl, no WARC" "$pinned" "$round" --set storage.warc=false
        load "wrk" "$pinned" "$round"
        stop_nginx
    done
done

if [[ $profile == yes ]]; then
    ARGIOPE=
    build_argiope profiling
    # shellcheck disable=SC2119
    start_nginx
    rm -rf -- "$work/job"
    crawl_arguments "$work/job"
    say "recording a crawl with perf"
    perf record --quiet --freq 997 --output "$work/perf.data" -- "$ARGIOPE" "${CRAWL[@]}" "${settings[@]}" >/dev/null ||
        die "perf record failed; where /proc/sys/kernel/perf_event_paranoid is above 1: sudo sysctl kernel.perf_event_paranoid=1"
    stop_nginx
    {
        printf '# One crawl with WARC, unpinned, built with the profile "profiling"; self time, all threads.\n\n'
        perf report --stdio --no-children --input "$work/perf.data" --sort comm --percent-limit 0.5 2>/dev/null |
            grep -E '^ +[0-9]' | sed 's/ *$//' || true
        printf '\n'
        perf report --stdio --no-children --input "$work/perf.data" --sort dso,symbol 2>/dev/null |
            grep -E '^ +[0-9]' | sed -n '1,60{s/\( *-\)* *$//;p}'
    } >"$out/profile.txt"
fi

cpu=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | sed -n 1p)
commit=$(git -C "$REPOSITORY" rev-parse --short HEAD 2>/dev/null || echo unknown)
[[ -z $(git -C "$REPOSITORY" status --porcelain --untracked-files=no 2>/dev/null) ]] || commit="$commit and changes"
python3 "$SCRIPTS/bench_table.py" --runs "$runs" --sites "$REALWEB/sites.tsv" --out "$out" \
    date="$date" commit="$commit" cpu="${cpu:-unknown}" cores="$(nproc)" system="$(uname -srm)" \
    argiope="$("$ARGIOPE" --version)" settings="${settings[*]:-}" \
    nginx="$(nginx -v 2>&1 | sed 's/^nginx version: //')" \
    wrk="$(wrk -v 2>&1 | sed -n '1s/^wrk \([^ ]*\).*/\1/p')"
rm -rf -- "$work/job" "$work/perf.data"
cat -- "$out/README.md"
say "written: $out"
