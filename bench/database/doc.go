// Package database measures primary keys in real databases: an auto-increment,
// a snowflake, a UUIDv4 and a UUIDv7, in PostgreSQL and in MariaDB. It is a
// benchmark and its test; there is nothing to import. See README.md.
package database
