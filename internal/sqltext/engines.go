package sqltext

import "strings"

// engine is what an engine writes in its own way. Names in braces are filled in.
type engine struct {
	right, left, divide, and string // operators: {x} is the operand, and {n} the number

	// time is the time that is {days} and {micros} after the epoch. sinceEpoch is the microseconds from the epoch to t.
	// {epoch} is the epoch as text, to the millisecond; {epochMicros} its microseconds since 1970; {epochDay} and
	// {epochRest} are the same as whole days and the microseconds of the last day.
	time, sinceEpoch string

	types  [3]string // by Kind
	create string    // a function's statement
	usage  string    // what to do with the functions; {time} is an expression
}

const aDay = "-- The IDs of a day: WHERE id >= {prefix}first('2026-11-20') AND id < {prefix}first('2026-11-21')\n"

var engines = map[Engine]engine{
	PostgreSQL: {
		right: "({x} >> {n})", left: "({x} << {n})", divide: "({x} / {n})", and: "({x} & {n})",
		time:       "(timestamp '{epoch}' + {days} * interval '1 day' + {micros} * interval '1 microsecond') AT TIME ZONE 'UTC'",
		sinceEpoch: "((extract(epoch FROM t AT TIME ZONE 'UTC') * 1000000)::bigint - {epochMicros})",
		types:      [...]string{Integer: "bigint", Time: "timestamptz", Bool: "boolean"},
		create: "CREATE FUNCTION {name}({parameter} {type}) RETURNS {result}\n" +
			"LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS\n$$ SELECT {body} $$;\n",
		usage: aDay + "-- A column with the time: ADD COLUMN created timestamptz GENERATED ALWAYS AS ({prefix}time(id)) STORED\n",
	},
	MySQL: { // the result of its operators on bits is unsigned
		right: "CAST({x} >> {n} AS SIGNED)", left: "CAST({x} << {n} AS SIGNED)", divide: "({x} DIV {n})", and: "CAST({x} & {n} AS SIGNED)",
		time:       "TIMESTAMPADD(MICROSECOND, {micros}, TIMESTAMPADD(DAY, {days}, TIMESTAMP'{epoch}000'))",
		sinceEpoch: "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'{epoch}000', t)",
		types:      [...]string{Integer: "BIGINT", Time: "DATETIME(6)", Bool: "BOOLEAN"},
		create:     "CREATE FUNCTION {name}({parameter} {type}) RETURNS {result} DETERMINISTIC NO SQL\nRETURN {body};\n",
		usage: aDay + "-- A column with the time (MySQL allows no user's function there):\n" +
			"-- ADD COLUMN created DATETIME(6) AS ({time})\n",
	},
	SQLite: {
		right: "({x} >> {n})", left: "({x} << {n})", divide: "({x} / {n})", and: "({x} & {n})",
		time: "strftime('%Y-%m-%d %H:%M:%S', ({days} + {epochDay}) * 86400 + ({micros} + {epochRest}) / 1000000, 'unixepoch')" +
			" || printf('.%06d', ({micros} + {epochRest}) % 1000000)",
		sinceEpoch: "(CAST(strftime('%s', t) AS INTEGER) * 1000000 + CAST(substr(strftime('%f', t), 4) AS INTEGER) * 1000 - {epochMicros})",
		create:     "-- {body}\n",
		usage: "-- SQLite has no CREATE FUNCTION: write the expressions in place of a call.\n" +
			"-- A column with the time: ADD COLUMN created TEXT AS ({time}) VIRTUAL\n",
	},
	ClickHouse: {
		right: "bitShiftRight({x}, {n})", left: "bitShiftLeft({x}, {n})", divide: "intDiv({x}, {n})", and: "bitAnd({x}, {n})",
		time:       "fromUnixTimestamp64Micro(toInt64({days} * 86400000000 + {micros} + {epochMicros}), 'UTC')",
		sinceEpoch: "(toUnixTimestamp64Micro(toDateTime64(t, 6, 'UTC')) - {epochMicros})",
		create:     "CREATE FUNCTION {name} AS ({parameter}) -> {body};\n",
		usage:      aDay + "-- Not tested on a server. It needs ClickHouse 21.10 or later.\n",
	},
}

// fill replaces names by values: each name is followed by its value.
func fill(text string, names ...string) string { return strings.NewReplacer(names...).Replace(text) }
