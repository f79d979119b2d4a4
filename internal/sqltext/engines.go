package sqltext

import "strings"

// engine has the SQL that differs between engines. Names in braces are placeholders.
type engine struct {
	// The operators: {x} is the operand, {n} the number and, of a shift, {p} two to the power of
	// {n}.
	right, left, divide, rest, and string

	// time is the time {days} and {micros} after the epoch. sinceEpoch is the number of
	// microseconds from the epoch to t. {epoch} is the epoch as text, to the millisecond;
	// {epochMicros} its microseconds since 1970; {epochDay} and {epochRest} are the same as whole
	// days and the microseconds of the last day.
	time, sinceEpoch string

	boolean string // a condition {x} as a value, if the engine has no such values
	signed  string // the number {n} with the type of an ID, if its literals are unsigned

	types  [3]string // by Kind
	id     string    // the type of an ID as a parameter: it holds all values of integer columns
	create string    // the statement that creates a function
	usage  string    // how to use the functions; {time} and {valid} are expressions
}

const aDay = "-- The IDs of a day: WHERE id >= {prefix}first('2026-11-20') AND id < {prefix}first('2026-11-21')\n"

var engines = map[Engine]engine{
	PostgreSQL: {
		// For each operator, pg_catalog has one with exactly these types. Otherwise PostgreSQL may
		// prefer an operator that another user has made, and run it with the caller's rights. The
		// result of extract is float8 before PostgreSQL 14, and numeric from then on.
		right: "({x} >> {n})", left: "({x} << {n})", divide: "({x} / {n})", rest: "({x} % bigint '{n}')", and: "({x} & bigint '{n}')",
		time:       "(timestamp '{epoch}' + {days}::float8 * interval '1 day' + {micros}::float8 * interval '1 microsecond') AT TIME ZONE 'UTC'",
		sinceEpoch: "((extract(epoch FROM t AT TIME ZONE 'UTC') OPERATOR(pg_catalog.*) 1000000)::bigint - {epochMicros})",
		types:      [...]string{Integer: "bigint", Time: "timestamptz", Bool: "boolean"},
		id:         "bigint",
		create: "CREATE FUNCTION {name}({parameter} {type}) RETURNS {result}\n" +
			"LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS\n$$ SELECT {body} $$;\n",
		usage: aDay + "-- A column with the time: ADD COLUMN created timestamptz GENERATED ALWAYS AS ({prefix}time(id)) STORED\n" +
			"-- A check: CHECK ({prefix}valid(id))\n" +
			"-- A column of texts in base 32, 58 or 62, if it is to sort as bytes do: text COLLATE \"C\"\n",
	},
	MySQL: { // the result of its operators on bits is unsigned
		right: "CAST({x} >> {n} AS SIGNED)", left: "CAST({x} << {n} AS SIGNED)", divide: "({x} DIV {n})", rest: "({x} % {n})", and: "CAST({x} & {n} AS SIGNED)",
		time:       "TIMESTAMPADD(MICROSECOND, {micros}, TIMESTAMPADD(DAY, {days}, TIMESTAMP'{epoch}000'))",
		sinceEpoch: "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'{epoch}000', t)",
		types:      [...]string{Integer: "BIGINT", Time: "DATETIME(6)", Bool: "BOOLEAN"},
		id:         "DECIMAL(20)", // holds both BIGINT UNSIGNED and BIGINT, without errors
		create:     "CREATE FUNCTION {name}({parameter} {type}) RETURNS {result} DETERMINISTIC NO SQL\nRETURN {body};\n",
		usage: aDay + "-- A column with the time, and a check (MySQL and MariaDB allow no user's function there):\n" +
			"-- ADD COLUMN created DATETIME(6) AS ({time})\n" +
			"-- CHECK ({valid})\n" +
			"-- A column of texts in base 58 or 62, or of package opaque. By default MySQL and MariaDB take a for A, and lose rows:\n" +
			"-- VARCHAR(11) CHARACTER SET ascii COLLATE ascii_bin\n",
	},
	SQLite: {
		right: "({x} >> {n})", left: "({x} << {n})", divide: "({x} / {n})", rest: "({x} % {n})", and: "({x} & {n})",
		time: "strftime('%Y-%m-%d %H:%M:%S', ({days} + {epochDay}) * 86400 + ({micros} + {epochRest}) / 1000000, 'unixepoch')" +
			" || printf('.%06d', ({micros} + {epochRest}) % 1000000)",
		sinceEpoch: "(CAST(strftime('%s', t) AS INTEGER) * 1000000 + CAST(substr(strftime('%f', t), 4) AS INTEGER) * 1000 - {epochMicros})",
		create:     "-- {body}\n",
		usage: "-- SQLite has no CREATE FUNCTION: write the expressions in place of a call.\n" +
			"-- A column with the time: ADD COLUMN created TEXT AS ({time}) VIRTUAL\n" +
			"-- A check: CHECK ({valid})\n" +
			"-- A column of texts in base 58 or 62, or of package opaque: TEXT, without COLLATE NOCASE, which takes a for A\n",
	},
	DuckDB: {
		right: "({x} >> {n})", left: "({x} << {n})", divide: "({x} // {n})", rest: "({x} % {n})", and: "({x} & {n})",
		time:       "make_timestamp(({days} * 86400000000 + {micros} + {epochMicros})::BIGINT)",
		sinceEpoch: "(epoch_us(t::TIMESTAMP) - {epochMicros})",
		create:     "CREATE MACRO {name}({parameter}) AS ({body});\n",
		usage:      aDay + "-- Times are TIMESTAMP, in UTC.\n",
	},
	SQLServer: { // a literal over 2^31 is no bigint, and no condition is a value
		right: "({x} / CAST({p} AS bigint))", left: "({x} * CAST({p} AS bigint))", divide: "({x} / CAST({n} AS bigint))",
		rest: "({x} % CAST({n} AS bigint))", and: "({x} & CAST({n} AS bigint))",
		time: "DATEADD(microsecond, CAST({micros} % 1000000 AS int), DATEADD(second, CAST({micros} / 1000000 AS int), " +
			"DATEADD(day, CAST({days} AS int), CAST('{epoch}' AS datetime2(6)))))",
		sinceEpoch: "DATEDIFF_BIG(microsecond, CAST('{epoch}' AS datetime2(6)), t)",
		boolean:    "CASE WHEN {x} THEN 1 ELSE 0 END",
		types:      [...]string{Integer: "bigint", Time: "datetime2(6)", Bool: "bit"},
		id:         "bigint",
		create: "CREATE FUNCTION dbo.{name}(@{parameter} {type}) RETURNS {result} WITH SCHEMABINDING AS\n" +
			"BEGIN RETURN (SELECT {body} FROM (SELECT @{parameter} AS {parameter}) AS p) END;\nGO\n",
		usage: "-- The IDs of a day: WHERE id >= dbo.{prefix}first('2026-11-20') AND id < dbo.{prefix}first('2026-11-21')\n" +
			"-- Not tested on a server. It needs SQL Server 2016 or later.\n",
	},
	Oracle: {
		right: "FLOOR({x} / {p})", left: "({x} * {p})", divide: "FLOOR({x} / {n})", rest: "MOD({x}, {n})", and: "BITAND({x}, {n})",
		time: "TIMESTAMP '{epoch}' + NUMTODSINTERVAL({days}, 'DAY') + NUMTODSINTERVAL({micros} / 1000000, 'SECOND')",
		sinceEpoch: "(EXTRACT(DAY FROM (t - TIMESTAMP '{epoch}')) * 86400000000 + EXTRACT(HOUR FROM (t - TIMESTAMP '{epoch}')) * 3600000000 + " +
			"EXTRACT(MINUTE FROM (t - TIMESTAMP '{epoch}')) * 60000000 + EXTRACT(SECOND FROM (t - TIMESTAMP '{epoch}')) * 1000000)",
		boolean: "CASE WHEN {x} THEN 1 ELSE 0 END",
		types:   [...]string{Integer: "NUMBER", Time: "TIMESTAMP", Bool: "NUMBER"},
		id:      "NUMBER",
		create: "CREATE FUNCTION {name}({parameter} {type}) RETURN {result} DETERMINISTIC IS\n" +
			"BEGIN RETURN {body}; END;\n/\n",
		usage: "-- The IDs of a day: WHERE id >= {prefix}first(DATE '2026-11-20') AND id < {prefix}first(DATE '2026-11-21')\n" +
			"-- A column of IDs: NUMBER(19). Not tested on a server.\n",
	},
	BigQuery: {
		right: "({x} >> {n})", left: "({x} << {n})", divide: "DIV({x}, {n})", rest: "MOD({x}, {n})", and: "({x} & {n})",
		time:       "TIMESTAMP_MICROS({days} * 86400000000 + {micros} + {epochMicros})",
		sinceEpoch: "(UNIX_MICROS(t) - {epochMicros})",
		types:      [...]string{Integer: "INT64", Time: "TIMESTAMP", Bool: "BOOL"},
		id:         "INT64",
		create:     "CREATE FUNCTION {name}({parameter} {type}) RETURNS {result} AS ({body});\n",
		usage:      aDay + "-- Not tested on a server. The functions are made in the default dataset.\n",
	},
	Snowflake: { // a quotient is rounded, so the rest is taken off first
		right: "BITSHIFTRIGHT({x}, {n})", left: "BITSHIFTLEFT({x}, {n})", divide: "(({x} - MOD({x}, {n})) / {n})", rest: "MOD({x}, {n})", and: "BITAND({x}, {n})",
		time:       "DATEADD(microsecond, {days} * 86400000000 + {micros}, '{epoch}'::TIMESTAMP_NTZ)",
		sinceEpoch: "DATEDIFF(microsecond, '{epoch}'::TIMESTAMP_NTZ, t)",
		types:      [...]string{Integer: "NUMBER", Time: "TIMESTAMP_NTZ", Bool: "BOOLEAN"},
		id:         "NUMBER",
		create:     "CREATE FUNCTION {name}({parameter} {type}) RETURNS {result} IMMUTABLE AS $$ {body} $$;\n",
		usage:      aDay + "-- Not tested on a server.\n",
	},
	ClickHouse: {
		right: "bitShiftRight({x}, {n})", left: "bitShiftLeft({x}, {n})", divide: "intDiv({x}, {n})", rest: "({x} % {n})", and: "bitAnd({x}, {n})",
		time:       "fromUnixTimestamp64Micro(toInt64({days} * 86400000000 + {micros} + {epochMicros}), 'UTC')",
		sinceEpoch: "(toUnixTimestamp64Micro(toDateTime64(t, 6, 'UTC')) - {epochMicros})",
		signed:     "toInt64({n})", // CASE refuses a UInt64 beside an Int64
		create:     "CREATE FUNCTION {name} AS ({parameter}) -> {body};\n",
		usage:      aDay + "-- Not tested on a server. It needs ClickHouse 21.10 or later.\n",
	},
}

// fill replaces names by values: each name is followed by its value.
func fill(text string, names ...string) string { return strings.NewReplacer(names...).Replace(text) }
