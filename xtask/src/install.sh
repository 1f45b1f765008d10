# Installs Debian packages without starting the services that they bring.
# $1: the file that Debian asks whether a service may start; $2: packages that must come;
# $3: packages that may, where this system has them.
set -eu
policy=$1 packages=$2 optional=$3
before=$policy.before-xtask
mark='Put here by cargo xtask, for as long as it installs packages.'

restore() {
    rm -f "$policy"
    if [ -e "$before" ]; then mv "$before" "$policy"; fi
}
trap restore EXIT
trap 'exit 130' HUP INT TERM

# What an earlier run had to leave there is ours, and nobody's to be given back.
if [ -e "$policy" ] && ! grep -q "$mark" "$policy"; then mv "$policy" "$before"; fi
printf '#!/bin/sh\n# %s\nexit 101\n' "$mark" >"$policy"
chmod 755 "$policy"

export DEBIAN_FRONTEND=noninteractive LC_ALL=C
if [ -n "$packages" ]; then
    apt-get update || echo 'The lists of packages are as old as they were.'
fi
for package in $optional; do
    if apt-cache show "$package" >/dev/null 2>&1; then packages="$packages $package"; fi
done
# Each word is a package.
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get install -y --no-install-recommends $packages
