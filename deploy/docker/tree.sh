#!/bin/sh
# Makes all files of the image in a folder: sh deploy/docker/tree.sh FOLDER. The Dockerfile runs it, and the test
# that starts the server with this folder as its root.
set -eu
cd "$(dirname "$0")/../.."
CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o "$1/snowflaked" ./cmd/snowflaked
mkdir -p "$1/etc/ssl/certs"
cp /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/" # for TLS to the store
