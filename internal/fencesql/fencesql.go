// Package fencesql provides the parts of a fence of package follow on PostgreSQL that a function of
// snowflake sql --generate needs, too, so that the program snowflake does not link package follow.
package fencesql

import (
	"fmt"
	"regexp"
	"strings"
)

// Class is the first key of the fences' advisory locks. The second key is the OID of the sequence
// for the writers' lock, and the OID of the table for the readers' lock.
const Class = "1718579308"

// PostgreSQL cuts names after 63 characters, and those of fences get a suffix.
var names = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,49}\.)?[A-Za-z_][A-Za-z0-9_]{0,49}$`)

// CheckName returns an error if a name is not the name of a fence.
func CheckName(name string) error {
	if !names.MatchString(name) {
		return fmt.Errorf("%q is not a name, or schema.name, of up to 50 letters, digits and underscores", name)
	}
	return nil
}

// Quote returns a name, or schema.name, as SQL that keeps its upper and lower case.
func Quote(name string) string { return `"` + strings.ReplaceAll(name, ".", `"."`) + `"` }

// Check returns the statement that takes the writers' lock of a fence and reads its mark.
func Check(name string) string {
	// CASE evaluates its condition first. The sequence is not read in the statement's snapshot.
	// Since PostgreSQL 18, its value is NULL for a role without rights; the cast then fails.
	// The arguments have exactly the types of the functions in pg_catalog, so that no function
	// of another schema is a better match.
	const check = `SELECT CASE WHEN pg_advisory_xact_lock_shared({class}, '{m}'::regclass::oid::int) IS NULL THEN NULL
    ELSE COALESCE(pg_sequence_last_value('{m}'::regclass), format(text 'no right to read the fence''s sequence, or no Fence.Create')::bigint) END`
	return strings.NewReplacer("{class}", Class, "{m}", Quote(name+"_mark")).Replace(check)
}
