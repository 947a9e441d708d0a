#!/bin/sh
# Installs the C interface: header, shared and static library, pkg-config file.
set -eu
umask 022 # what is installed is for everybody

usage() {
    cat <<'END'
usage: install.sh [--prefix DIR] [--from DIR]

  --prefix DIR   install below DIR: include/, lib/, lib/pkgconfig/   (default: /usr/local)
  --from DIR     take the libraries that cargo has built in DIR      (default: build them, optimized)

For a package, DESTDIR=DIR in the environment puts all below DIR, and names the prefix as it will be.

Afterwards: cc program.c $(PKG_CONFIG_PATH=DIR/lib/pkgconfig pkg-config --cflags --libs foreshore)
END
}

prefix=/usr/local
from=
while [ $# -gt 0 ]; do
    case $1 in
    --prefix | --from)
        if [ $# -lt 2 ]; then
            echo "install.sh: $1 needs a directory" >&2
            exit 2
        fi
        if [ "$1" = --prefix ]; then prefix=$2; else from=$2; fi
        shift 2
        ;;
    --help | -h)
        usage
        exit 0
        ;;
    *)
        echo "install.sh: there is no option $1" >&2
        usage >&2
        exit 2
        ;;
    esac
done

here=$(cd "$(dirname "$0")" && pwd)
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$here/../../Cargo.toml" | head -n 1)
if [ -z "$from" ]; then
    (cd "$here" && cargo build --release --package foreshore-capi)
    from=$(cd "$here" && cd "${CARGO_TARGET_DIR:-../../target}" && pwd)/release
fi

named=$prefix
prefix=${DESTDIR:-}$prefix
mkdir -p "$prefix/include" "$prefix/lib/pkgconfig"
prefix=$(cd "$prefix" && pwd)
[ -n "${DESTDIR:-}" ] || named=$prefix # the pkg-config file is read elsewhere
install -m 644 "$here/include/foreshore.h" "$prefix/include/"
install -m 644 "$from/libforeshore_c.a" "$prefix/lib/libforeshore.a"
install -m 755 "$from/libforeshore_c.so" "$prefix/lib/libforeshore.so.$version"
ln -sf "libforeshore.so.$version" "$prefix/lib/libforeshore.so.0"
ln -sf libforeshore.so.0 "$prefix/lib/libforeshore.so"
sed -e "s|@PREFIX@|$named|" -e "s|@VERSION@|$version|" "$here/foreshore.pc.in" >"$prefix/lib/pkgconfig/foreshore.pc"
echo "installed Foreshore $version below $prefix"
