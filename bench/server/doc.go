// Package serverbench measures snowflaked beside what a client could use instead: a Sequencer of
// redislease, and a sequence of PostgreSQL. It is a benchmark and its test; there is nothing to import. See
// README.md.
package serverbench
