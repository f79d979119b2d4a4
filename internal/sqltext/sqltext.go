// Package sqltext writes SQL that decodes IDs in a database, as a Layout does in Go.
package sqltext

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// Engine is a database.
type Engine string

const (
	PostgreSQL Engine = "postgres"
	MySQL      Engine = "mysql" // and MariaDB
	SQLite     Engine = "sqlite"
	ClickHouse Engine = "clickhouse"
)

// Engines returns all databases.
func Engines() []Engine { return []Engine{PostgreSQL, MySQL, SQLite, ClickHouse} }

// ErrUnit is returned if SQL's times cannot count the layout's ticks exactly.
var ErrUnit = errors.New("the tick must be a number of microseconds that divides a day, or must divide a microsecond")

// Function is an expression with a name and one parameter.
type Function struct {
	Name      string
	Parameter string // "id" or "t"
	Kind      Kind   // what it returns
	Body      string // an expression of the engine's, with the parameter in it
	About     string
}

// Kind is the type of a result.
type Kind uint8

const (
	Integer Kind = iota
	Time
	Bool
)

// Functions returns the functions for a layout. time, worker and so on return the
// fields of an ID, or NULL if the number is not an ID. valid tells whether a number
// is an ID. first returns the first ID that is not stamped before a time.
func Functions(e Engine, l snowflake.Layout) ([]Function, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	const day = 24 * time.Hour
	micro := l.Unit%time.Microsecond == 0 && day%l.Unit == 0
	if !micro && time.Microsecond%l.Unit != 0 {
		return nil, fmt.Errorf("unit %v: %w", l.Unit, ErrUnit)
	}
	w := writer{e, l}
	fs := []Function{
		{"valid", "id", Bool, w.valid(), "whether a number is an ID of the layout"},
		{"time", "id", Time, w.ifValid(w.time()), "when an ID was stamped, in UTC"},
	}
	shift := 0
	field := func(name string, bits uint8) {
		if bits > 0 {
			fs = append(fs, Function{name, "id", Integer, w.ifValid(w.field(shift, bits)), "the " + name + " of an ID"})
			shift += int(bits)
		}
	}
	if l.WorkerLast {
		field("worker", l.WorkerBits)
		field("sequence", l.SequenceBits)
	} else {
		field("sequence", l.SequenceBits)
		field("worker", l.WorkerBits)
	}
	field("datacenter", l.DatacenterBits)
	field("clockseq", l.ClockSeqBits)
	return append(fs, Function{"first", "t", Integer, w.first(), "the first ID that is not stamped before a time in UTC"}), nil
}

// writer writes expressions of an engine.
type writer struct {
	e Engine
	l snowflake.Layout
}

func (w writer) shift() int {
	return int(w.l.ClockSeqBits) + int(w.l.DatacenterBits) + int(w.l.WorkerBits) + int(w.l.SequenceBits)
}

// largest returns the greatest ID.
func (w writer) largest() int64 { return ones(w.shift() + int(w.l.TimeBits)) }

func ones(bits int) int64 { return math.MaxInt64 &^ (-1 << bits) }

func (w writer) valid() string { return fmt.Sprintf("id BETWEEN 0 AND %d", w.largest()) }

func (w writer) ifValid(expression string) string {
	return fmt.Sprintf("CASE WHEN %s THEN %s END", w.valid(), expression)
}

// right shifts x to the right, as each engine writes it. left and divide are alike.
func (w writer) right(x string, bits int) string {
	switch w.e {
	case ClickHouse:
		return fmt.Sprintf("bitShiftRight(%s, %d)", x, bits)
	case MySQL: // the result of >> is unsigned
		return fmt.Sprintf("CAST(%s >> %d AS SIGNED)", x, bits)
	}
	return fmt.Sprintf("(%s >> %d)", x, bits)
}

func (w writer) left(x string, bits int) string {
	switch w.e {
	case ClickHouse:
		return fmt.Sprintf("bitShiftLeft(%s, %d)", x, bits)
	case MySQL:
		return fmt.Sprintf("CAST(%s << %d AS SIGNED)", x, bits)
	}
	return fmt.Sprintf("(%s << %d)", x, bits)
}

func (w writer) divide(x string, y int64) string {
	if y == 1 {
		return x
	}
	switch w.e {
	case ClickHouse:
		return fmt.Sprintf("intDiv(%s, %d)", x, y)
	case MySQL:
		return fmt.Sprintf("(%s DIV %d)", x, y)
	}
	return fmt.Sprintf("(%s / %d)", x, y)
}

func times(x string, y int64) string {
	if y == 1 {
		return x
	}
	return fmt.Sprintf("(%s * %d)", x, y)
}

func (w writer) field(shift int, bits uint8) string {
	x := "id"
	if shift > 0 {
		x = w.right("id", shift)
	}
	if w.e == ClickHouse {
		return fmt.Sprintf("bitAnd(%s, %d)", x, ones(int(bits)))
	}
	if w.e == MySQL {
		return fmt.Sprintf("CAST(%s & %d AS SIGNED)", x, ones(int(bits)))
	}
	return fmt.Sprintf("(%s & %d)", x, ones(int(bits)))
}

// time returns the time of a valid ID. It adds whole days first, and then the rest
// of a day: the engines hold fractions of a second in floating point, which is exact
// for a day, and not for a thousand years.
func (w writer) time() string {
	tick := w.right("id", w.shift())
	if w.shift() == 0 {
		tick = "id"
	}
	const day = int64(24 * time.Hour)
	perDay := day / int64(w.l.Unit)
	days := w.divide(tick, perDay)
	rest := fmt.Sprintf("(%s %% %d)", tick, perDay) // ticks since midnight
	micros := times(rest, int64(w.l.Unit/time.Microsecond))
	if w.l.Unit < time.Microsecond {
		micros = w.divide(rest, int64(time.Microsecond/w.l.Unit))
	}
	epoch := w.l.Epoch.Time()
	text := epoch.Format("2006-01-02 15:04:05.000")
	switch w.e {
	case PostgreSQL:
		return fmt.Sprintf("(timestamp '%s' + %s * interval '1 day' + %s * interval '1 microsecond') AT TIME ZONE 'UTC'", text, days, micros)
	case MySQL:
		return fmt.Sprintf("TIMESTAMPADD(MICROSECOND, %s, TIMESTAMPADD(DAY, %s, TIMESTAMP'%s000'))", micros, days, text)
	case SQLite:
		const microsPerDay = int64(24 * time.Hour / time.Microsecond)
		into := (epoch.UnixMicro()%microsPerDay + microsPerDay) % microsPerDay
		micros = fmt.Sprintf("(%s + %d)", micros, into)
		return fmt.Sprintf("strftime('%%Y-%%m-%%d %%H:%%M:%%S', (%s + %d) * 86400 + %s / 1000000, 'unixepoch') || printf('.%%06d', %s %% 1000000)",
			days, (epoch.UnixMicro()-into)/microsPerDay, micros, micros)
	}
	return fmt.Sprintf("fromUnixTimestamp64Micro(toInt64(%s * 86400000000 + %s + %d), 'UTC')", days, micros, epoch.UnixMicro())
}

// first returns the first ID not before t. If t is before the epoch, that is 0. If t
// is past the layout's end, it is a number greater than all IDs or, if there is no
// such number, the greatest ID.
func (w writer) first() string {
	micros := w.micros()
	unit := int64(w.l.Unit / time.Microsecond)
	tick := w.divide(fmt.Sprintf("(%s + %d)", micros, unit-1), unit)
	late, limit := tick, ones(int(w.l.TimeBits)) // late > limit is past the last tick
	if w.l.Unit < time.Microsecond {
		// Compare microseconds: an integer may be too small for the ticks.
		perMicro := int64(time.Microsecond / w.l.Unit)
		tick, late, limit = times(micros, perMicro), micros, limit/perMicro
	}
	end := w.largest()
	if end < math.MaxInt64 {
		end++
	}
	return fmt.Sprintf("CASE WHEN %s <= 0 THEN 0 WHEN %s > %d THEN %d ELSE %s END", micros, late, limit, end, w.left(tick, w.shift()))
}

// micros returns the microseconds from the epoch to t.
func (w writer) micros() string {
	epoch := w.l.Epoch.Time()
	switch w.e {
	case PostgreSQL:
		return fmt.Sprintf("((extract(epoch FROM t AT TIME ZONE 'UTC') * 1000000)::bigint - %d)", epoch.UnixMicro())
	case MySQL:
		return fmt.Sprintf("TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'%s', t)", epoch.Format("2006-01-02 15:04:05.000000"))
	case SQLite:
		return fmt.Sprintf("(CAST(strftime('%%s', t) AS INTEGER) * 1000000 + CAST(substr(strftime('%%f', t), 4) AS INTEGER) * 1000 - %d)", epoch.UnixMicro())
	}
	return fmt.Sprintf("(toUnixTimestamp64Micro(toDateTime64(t, 6, 'UTC')) - %d)", epoch.UnixMicro())
}

// Script returns statements to paste into a migration. Each ends with a semicolon
// at the end of its last line. For SQLite, which has no CREATE FUNCTION, they are
// expressions in comments.
func Script(e Engine, l snowflake.Layout, prefix string) (string, error) {
	fs, err := Functions(e, l)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "-- IDs of %v\n", l)
	for _, f := range fs {
		fmt.Fprintf(&b, "\n-- %s%s(%s): %s\n", prefix, f.Name, f.Parameter, f.About)
		b.WriteString(f.create(e, prefix))
	}
	b.WriteString("\n" + usage(e, fs, prefix))
	return b.String(), nil
}

// create returns the statement that creates a function.
func (f Function) create(e Engine, prefix string) string {
	name := prefix + f.Name
	switch e {
	case PostgreSQL:
		parameter := "id bigint"
		if f.Parameter == "t" {
			parameter = "t timestamptz"
		}
		result := [...]string{Integer: "bigint", Time: "timestamptz", Bool: "boolean"}[f.Kind]
		return fmt.Sprintf("CREATE FUNCTION %s(%s) RETURNS %s\nLANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS\n$$ SELECT %s $$;\n", name, parameter, result, f.Body)
	case MySQL:
		parameter := "id BIGINT"
		if f.Parameter == "t" {
			parameter = "t DATETIME(6)"
		}
		result := [...]string{Integer: "BIGINT", Time: "DATETIME(6)", Bool: "BOOLEAN"}[f.Kind]
		return fmt.Sprintf("CREATE FUNCTION %s(%s) RETURNS %s DETERMINISTIC NO SQL\nRETURN %s;\n", name, parameter, result, f.Body)
	case ClickHouse:
		return fmt.Sprintf("CREATE FUNCTION %s AS (%s) -> %s;\n", name, f.Parameter, f.Body)
	}
	return "-- " + f.Body + "\n"
}

// usage shows what to do with the functions.
func usage(e Engine, fs []Function, prefix string) string {
	var time string
	for _, f := range fs {
		if f.Name == "time" {
			time = f.Body
		}
	}
	within := fmt.Sprintf("-- The IDs of a day: WHERE id >= %[1]sfirst('2026-11-20') AND id < %[1]sfirst('2026-11-21')\n", prefix)
	switch e {
	case PostgreSQL:
		return within + fmt.Sprintf("-- A column with the time: ADD COLUMN created timestamptz GENERATED ALWAYS AS (%stime(id)) STORED\n", prefix)
	case MySQL:
		return within + "-- A column with the time (MySQL allows no user's function there):\n-- ADD COLUMN created DATETIME(6) AS (" + time + ")\n"
	case SQLite:
		return "-- SQLite has no CREATE FUNCTION: write the expressions in place of a call.\n" +
			"-- A column with the time: ADD COLUMN created TEXT AS (" + time + ") VIRTUAL\n"
	}
	return within + "-- Not tested on a server. It needs ClickHouse 21.10 or later.\n"
}
