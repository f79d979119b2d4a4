#!/usr/bin/env bash
# Generates the Go code of snowflake.proto. It needs Debian's packages protobuf-compiler and
# libprotobuf-dev; the module requires the versions of the plugins.
set -euo pipefail
cd "$(dirname "$0")"
plugins=$(mktemp -d)
trap 'rm -r "$plugins"' EXIT
go build -o "$plugins/" google.golang.org/protobuf/cmd/protoc-gen-go connectrpc.com/connect/cmd/protoc-gen-connect-go
PATH="$plugins:$PATH" protoc -I . \
	--go_out=. --go_opt=paths=source_relative \
	--connect-go_out=. --connect-go_opt=paths=source_relative,simple \
	snowflake/v1/snowflake.proto
# The code does not depend on the release of protoc.
sed -i "/^\/\/.*protoc  *v[0-9]/d" snowflake/v1/*.pb.go
