# Installs Debian packages without starting the services that they bring.
# $1: the path of Debian's policy-rc.d; $2: required packages;
# $3: optional packages, installed if this system has them.
set -eu
policy=$1 packages=$2 optional=$3
before=$policy.before-xtask
mark='Put here by cargo xtask while it installs packages.'

restore() {
    rm -f "$policy"
    if [ -e "$before" ]; then mv "$before" "$policy"; fi
}
trap restore EXIT
trap 'exit 130' HUP INT TERM

# The policy of a killed run is ours: it must not be restored.
if [ -e "$policy" ] && ! grep -q "$mark" "$policy"; then mv "$policy" "$before"; fi
printf '#!/bin/sh\n# %s\nexit 101\n' "$mark" >"$policy"
chmod 755 "$policy"

export DEBIAN_FRONTEND=noninteractive LC_ALL=C
if [ -n "$packages" ]; then
    apt-get update || echo 'apt-get update failed: using the present package lists'
fi
for package in $optional; do
    if apt-cache show "$package" >/dev/null 2>&1; then packages="$packages $package"; fi
done
# The words are packages, so the variable is not quoted.
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get install -y --no-install-recommends $packages
