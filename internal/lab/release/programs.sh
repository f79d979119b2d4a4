#!/usr/bin/env bash
# Builds the programs of a release into a folder, which it makes: for each platform, or for the platforms that are named.
# Beside each program it writes the list of the modules in it, in the form of CycloneDX; and SHA256SUMS of all files.
#
#	bash internal/lab/release/programs.sh DIR [linux/amd64 ...]
set -euo pipefail
cyclonedx=github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.9.0
cd "$(dirname "$0")/../../.."
dir=$1
shift
mkdir -p "$dir"
[ $# -gt 0 ] || set -- linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64
version=$(go run ./internal/lab/release tags | head -n 1)
for command in cmd/snowflake cmd/snowflaked; do
	for platform; do
		name=$(basename $command)-$version-${platform/\//-}
		program=$dir/$name
		[[ $platform != windows/* ]] || program+=.exe
		CGO_ENABLED=0 GOOS=${platform%/*} GOARCH=${platform#*/} go build -trimpath -ldflags='-s -w' -o "$program" ./$command
		# The modules of this repository have no version yet when they are built.
		go run $cyclonedx bin -json -std -version "$version" "$program" | sed "s/(devel)/$version/g" >"$dir/$name.cdx.json"
	done
done
cd "$dir"
sha256sum -- * >SHA256SUMS
