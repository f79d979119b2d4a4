// Package serverbench measures snowflaked beside what a client could use instead, a Sequencer of
// redislease and a sequence of PostgreSQL, and beside a handler that returns a constant. It is a
// benchmark and its test; there is nothing to import. docs/server-figures.md has the figures, and
// says what each benchmark measures.
//
//	go run ./bench/report -server -rounds 3             # write the page: half a minute a round
//	go test -run '^$' -bench 'Call/call=(http1|grpc)' ./bench/server
//	go test ./bench/server -run '^$' -bench 'Half|Overhead' -benchtime 1x -load 10s
//	go test ./bench/server -run '^$' -bench Host -benchtime 3x -load 10s # see docs/scale.md
//
// It starts servers of the Debian packages redis-server and postgresql. If one is not installed,
// what needs it is skipped; if the variable CI is set, it fails. The servers' data is in memory if
// /dev/shm has room, and on the disk if SNOWFLAKE_FULL=1 is set, as report does.
//
// The machine has to be quiet. The client shares the processors with the servers, so another client
// gets other rates. The ratios of Overhead vary least.
package serverbench
