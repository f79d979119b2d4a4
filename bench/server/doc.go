// Package serverbench compares snowflaked with alternatives, a Sequencer of redislease and a
// sequence of PostgreSQL, and with a handler that returns a constant. It has only benchmarks and
// tests. figures.txt explains the benchmarks, and has the figures.
//
//	go run ./bench/report -server -rounds 3             # write the tables: half a minute a round
//	go test -run '^$' -bench 'Call/call=(http1|grpc)' ./bench/server
//	go test ./bench/server -run '^$' -bench 'Half|Overhead' -benchtime 1x -load 10s
//	go test ./bench/server -run '^$' -bench Host -benchtime 3x -load 10s # many clients on a host
//
// It starts servers of the Debian packages redis-server and postgresql. If one is not installed,
// the benchmarks that need it are skipped or, if the variable CI is set, fail. The servers' data is
// in memory if /dev/shm has room, and on disk if SNOWFLAKE_FULL=1 is set, as report does.
//
// The machine must be idle. The client shares the processors with the servers, so rates depend on
// the client, too. The ratios of Overhead vary least.
package serverbench
