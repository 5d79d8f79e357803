# shellcheck shell=bash
# What realweb.sh and bench-crawl.sh share: Debian's documentation as web sites on loopback.
#
# Sourced, not run. Everything lies below target/realweb:
#   debs/ root/     the packages, and what is in them
#   nginx/          configuration, process id, logs
#   sites.tsv       the sites: name, package, address, port, root folder, path of the start page
#   walk.json       what linkwalk.py found
#   jobs/           the crawls
#
# REALWEB_PORT (8480) is the port of all sites.

SCRIPTS=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
REPOSITORY=$(dirname -- "$SCRIPTS")
TARGET=${CARGO_TARGET_DIR:-$REPOSITORY/target}
REALWEB=$TARGET/realweb
PORT=${REALWEB_PORT:-8480}
NGINX_PID=
# Where nginx is, for those who are not root.
PATH=$PATH:/usr/sbin:/sbin

# The sites, one a line: name | package, as a regular expression of which the newest that the release
# has is taken | the end of the path of a file in it, with // between the site's root and the rest |
# the path of the start page, where it is not that file.
SITES='
python   | ^python3\.[0-9]+-doc$      | /html//index.html
java     | ^openjdk-[0-9]+-doc$       | -headless//api/index.html
postgres | ^postgresql-doc-[0-9]+$    | /html//index.html
boost    | ^libboost1\.[0-9]+-doc$    | -doc//doc/html/index.html
cmake    | ^cmake-doc$                | /html//index.html
django   | ^python-django-doc$        | /html//index.html
sqlite   | ^sqlite3-doc$              | /sqlite3//index.html
gimp     | ^gimp-help-en$             | /help//en/index.html
handbook | ^debian-handbook$          | /html//en-US/index.html | /
'

die() {
    printf '%s: %s\n' "$(basename -- "$0")" "$*" >&2
    exit 1
}

say() {
    printf '%s\n' "$*" >&2
}

# need PROGRAM PACKAGE: ends with the way to get it where it is missing.
need() {
    command -v "$1" >/dev/null ||
        die "$1 is missing; on Debian and Ubuntu: sudo apt-get install $2"
}

# robots_of NAME: the site's robots.txt on standard output; returns 1 where it has none.
robots_of() {
    case $1 in
        java)
            # A folder of a few hundred pages that many others link to.
            printf '%s\n' 'User-agent: *' 'Disallow: /api/java.xml/'
            ;;
        cmake)
            # Wildcards with an exception: the longest match decides.
            printf '%s\n' 'User-agent: *' 'Disallow: /variable/*_' 'Allow: /variable/CMAKE_*_DIR*.html$' \
                'Disallow: /policy/CMP000*.html$'
            ;;
        boost)
            # The group for everybody is not the one for the crawler that is tested.
            printf '%s\n' 'User-agent: *' 'Disallow: /' '' 'User-agent: Argiope' 'Disallow: /doc/html/xpressive/'
            ;;
        gimp)
            # The same letter, encoded and not.
            printf '%s\n' '# g is %67' 'user-agent:*' 'disallow:/en/%67imp-layer-   # and all that begins so'
            ;;
        postgres)
            # It is there, and empty.
            ;;
        sqlite)
            # The package has one of its own.
            cat -- "$2/robots.txt" 2>/dev/null || return 1
            ;;
        *) return 1 ;;
    esac
}

# newest PATTERN: the newest package of that name that can be had.
newest() {
    local package candidate
    for package in $(apt-cache pkgnames | grep -E -- "$1" | sort -V -r); do
        candidate=$(apt-cache policy "$package" | sed -n 's/^ *Candidate: //p')
        if [[ -n $candidate && $candidate != '(none)' ]]; then
            printf '%s\n' "$package"
            return 0
        fi
    done
    return 1
}

# deb_of PATTERN: the package's file, downloaded where it is not there yet.
deb_of() {
    local file package
    for file in "$REALWEB"/debs/*.deb; do
        package=$(basename -- "$file")
        if [[ -e $file && ${package%%_*} =~ $1 ]]; then
            printf '%s\n' "$file"
            return 0
        fi
    done
    need apt-get apt
    package=$(newest "$1") || return 1
    say "fetching $package"
    (cd -- "$REALWEB/debs" && apt-get download "$package" >&2) || return 1
    for file in "$REALWEB/debs/$package"_*.deb; do
        [[ -e $file ]] && printf '%s\n' "$file" && return 0
    done
    return 1
}

# unpack DEB: into root/, once.
unpack() {
    local link target
    [[ -e $1.unpacked ]] && return 0
    say "unpacking $(basename -- "$1")"
    dpkg -x "$1" "$REALWEB/root"
    # Links by absolute paths would leave the root for whatever this machine has installed.
    while IFS= read -r link; do
        target=$(readlink -- "$link")
        [[ $target == "$REALWEB/root/"* ]] || ln -sfnr -- "$REALWEB/root$target" "$link"
    done < <(find "$REALWEB/root" -type l -lname '/*')
    touch -- "$1.unpacked"
}

# prepare_sites: packages, sites.tsv, robots.txt files.
prepare_sites() {
    local name pattern mark start deb root path before number=2
    need dpkg dpkg
    mkdir -p -- "$REALWEB"/{debs,root,robots,nginx,jobs}
    rm -f -- "$REALWEB"/robots/*
    : >"$REALWEB/sites.tsv"
    while IFS='|' read -r name pattern mark start; do
        name=${name//[[:space:]]/} pattern=${pattern//[[:space:]]/}
        mark=${mark//[[:space:]]/} start=${start//[[:space:]]/}
        [[ -n $name ]] || continue
        if ! deb=$(deb_of "$pattern"); then
            say "no package matches $pattern, or it could not be fetched: the site $name is left out (sudo apt-get update helps where lists are missing)"
            continue
        fi
        unpack "$deb"
        before=${mark%%//*}
        path=$(dpkg-deb --fsys-tarfile "$deb" | tar -tf - | grep -F -- "${mark/\/\///}" | grep -E -- '\.html$' |
            awk '{ print length($0) "\t" $0 }' | sort -n | sed -n '1s/^[0-9]*\t\.\///p') || true
        if [[ -z $path ]]; then
            say "$(basename -- "$deb") has no file …${mark/\/\///}: the site $name is left out"
            continue
        fi
        root=${path%"$before/${mark#*//}"}$before
        start=${start:-/${mark#*//}}
        printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$name" "$(basename -- "$deb" .deb)" "127.0.0.$number" "$PORT" \
            "$REALWEB/root/$root" "$start" >>"$REALWEB/sites.tsv"
        if ! robots_of "$name" "$REALWEB/root/$root" >"$REALWEB/robots/$name.txt"; then
            rm -f -- "$REALWEB/robots/$name.txt"
        fi
        number=$((number + 1))
    done <<<"$SITES"
    [[ $(wc -l <"$REALWEB/sites.tsv") -ge 3 ]] || die "fewer than three sites could be had; see above"
    write_nginx_conf
    # What the sites are, but for where this checkout lies.
    cat -- "$REALWEB"/nginx/nginx.conf "$REALWEB"/robots/* >"$REALWEB/fingerprint"
}

# write_nginx_conf: nginx's configuration, for the current user.
write_nginx_conf() {
    local name package address port root start
    {
        # Run by root, nginx would give the work to a user who may not read this folder.
        [[ $(id -u) -ne 0 ]] || printf 'user root;\n'
        cat <<CONF
daemon off;
worker_processes 1;
pid $REALWEB/nginx/nginx.pid;
error_log $REALWEB/nginx/error.log warn;
events { worker_connections 4096; }
http {
    types {
        text/html html htm shtml;
        application/xhtml+xml xhtml xht;
        text/css css;
        text/plain txt cpp hpp c h;
        text/xml xml;
        text/javascript js;
        application/json json;
        application/pdf pdf;
        application/gzip gz;
        image/png png;
        image/jpeg jpg jpeg;
        image/gif gif;
        image/svg+xml svg;
    }
    default_type application/octet-stream;
    log_format crawl '\$msec\t\$server_addr\t\$server_port\t\$status\t\$request\t\$http_user_agent';
    access_log $REALWEB/nginx/access.log crawl buffer=256k flush=1s;
    log_not_found off;
    sendfile on;
    tcp_nopush on;
    keepalive_timeout 75s;
    keepalive_requests 10000000;
    client_body_temp_path $REALWEB/nginx/tmp-body;
    proxy_temp_path $REALWEB/nginx/tmp-proxy;
    fastcgi_temp_path $REALWEB/nginx/tmp-fastcgi;
    uwsgi_temp_path $REALWEB/nginx/tmp-uwsgi;
    scgi_temp_path $REALWEB/nginx/tmp-scgi;
CONF
        while IFS=$'\t' read -r name package address port root start; do
            printf '    # %s: %s, from %s\n' "$name" "$package" "$start"
            printf '    server {\n        listen %s:%s;\n        root %s;\n        index index.html;\n' "$address" "$port" "$root"
            [[ $start != / ]] || printf '        autoindex on;\n'
            if [[ -e $REALWEB/robots/$name.txt ]]; then
                printf '        location = /robots.txt { alias %s; }\n' "$REALWEB/robots/$name.txt"
            else
                printf '        location = /robots.txt { return 404; }\n'
            fi
            printf '    }\n'
        done <"$REALWEB/sites.tsv"
        printf '}\n'
    } >"$REALWEB/nginx/nginx.conf"
}

# lock_realweb: one at a time, since all share the port and the log.
lock_realweb() {
    need flock util-linux
    mkdir -p -- "$REALWEB"
    exec {REALWEB_LOCK}>"$REALWEB/lock"
    flock -n "$REALWEB_LOCK" || die "another run works in $REALWEB; wait for its end"
}

# start_nginx [COMMAND…]: starts it with an empty log, behind a command such as taskset -c 1.
start_nginx() {
    local address port option=() _name _package
    need nginx nginx
    rm -f -- "$REALWEB/nginx/access.log"
    # Else nginx complains of its compiled-in log, which only root may write.
    if nginx -h 2>&1 | grep -q -- '-e filename'; then
        option=(-e "$REALWEB/nginx/error.log")
    fi
    IFS=$'\t' read -r _name _package address port _ <"$REALWEB/sites.tsv"
    if (: <"/dev/tcp/$address/$port") 2>/dev/null; then
        die "port $port on $address is taken; set REALWEB_PORT to a free one"
    fi
    "$@" nginx "${option[@]}" -p "$REALWEB/nginx" -c "$REALWEB/nginx/nginx.conf" \
        {REALWEB_LOCK}>&- >&2 &
    NGINX_PID=$!
    trap stop_nginx EXIT
    for _ in {1..100}; do
        kill -0 "$NGINX_PID" 2>/dev/null || die "nginx ended at once; see $REALWEB/nginx/error.log"
        if (: <"/dev/tcp/$address/$port") 2>/dev/null; then
            return 0
        fi
        sleep 0.1
    done
    die "nginx does not answer on $address:$port; see $REALWEB/nginx/error.log"
}

# stop_nginx: ends the one that was started, and waits until its log is written.
stop_nginx() {
    if [[ -n $NGINX_PID ]]; then
        kill -TERM "$NGINX_PID" 2>/dev/null || true
        wait "$NGINX_PID" 2>/dev/null || true
        NGINX_PID=
    fi
}

# flush_log: nginx writes its buffer within a second, or when it reopens the log.
flush_log() {
    kill -USR1 "$NGINX_PID"
    sleep 1.5
}

# build_argiope [PROFILE]: sets ARGIOPE to the program, built where it is missing or out of date.
# A set ARGIOPE is taken as it is.
build_argiope() {
    local profile=${1:-release}
    if [[ -n ${ARGIOPE:-} ]]; then
        [[ -x $ARGIOPE ]] || die "ARGIOPE=$ARGIOPE is no program"
        return 0
    fi
    need cargo 'rustup, or see https://rustup.rs'
    (cd -- "$REPOSITORY" && cargo build --quiet --locked --profile "$profile" --bin argiope) >&2 ||
        die "cargo build --profile $profile failed"
    ARGIOPE=$TARGET/$profile/argiope
}

# start_urls: one start page a line.
start_urls() {
    local _name _package address port _root start
    while IFS=$'\t' read -r _name _package address port _root start; do
        printf 'http://%s:%s%s\n' "$address" "$port" "$start"
    done <"$REALWEB/sites.tsv"
}

# crawl_arguments JOB: sets CRAWL to the arguments of a crawl of all sites without pauses.
crawl_arguments() {
    local url
    CRAWL=(crawl --job "$1" --allow-private --quiet
        --set politeness.min_delay=0s
        --set politeness.delay_factor=0
        --set scope.kind=host
        --set scope.max_depth=65535)
    while IFS= read -r url; do
        CRAWL+=("$url")
    done < <(start_urls)
}
