// Package database measures primary keys in databases: an auto-increment, a snowflake, a UUIDv4 and
// a UUIDv7, for a million rows in PostgreSQL and in MariaDB. It has only benchmarks and tests.
// figures.txt explains the benchmarks, and has the figures; docs/keys.md says what follows.
//
//	go test -run '^$' -bench Default ./bench/database         # IDs from PostgreSQL: minutes
//	go test ./bench/database                                  # 2,000 rows: seconds
//	go test -run '^$' -bench . -timeout 0 ./bench/database    # a million rows: an hour or more
//	go test -run '^$' -bench Keys/server=PostgreSQL/pool=32MB -timeout 0 ./bench/database -rounds 1
//	go test -run '^$' -bench Fence ./bench/database           # with and without a fence: minutes
//	go test ./bench/database -args -h                         # the flags
//
// It starts servers of the Debian packages postgresql and mariadb-server, with their data in a
// temporary directory of up to 2 GB. If one is not installed, its benchmarks are skipped or, if the
// variable CI is set, fail.
package database
